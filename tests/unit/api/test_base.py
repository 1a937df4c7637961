"""Models of the API: examples are complete and valid."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

import anygpu.api
from anygpu.api.base import ApiModel, RequestModel, example_of

NOT_IN_OPENAPI = ("anygpu.api.agent", "anygpu.api.base")


def models() -> Iterator[type[ApiModel]]:
    for info in pkgutil.iter_modules(anygpu.api.__path__, "anygpu.api."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and issubclass(value, ApiModel) and value.__module__ == info.name:
                yield value


DOCUMENTED = [model for model in models() if model.__module__ not in NOT_IN_OPENAPI]
WITHOUT_EXAMPLE = {
    "JobFailure",
    "StoredBlob",
}  # nested in another model with an example of its own, or undocumented


@pytest.mark.parametrize("model", DOCUMENTED, ids=lambda model: model.__name__)
def test_the_example_of_a_model_is_valid(model: type[ApiModel]) -> None:
    if model.__name__ not in WITHOUT_EXAMPLE:
        model.model_validate_json(json.dumps(example_of(model)), strict=True)


@pytest.mark.parametrize("model", DOCUMENTED, ids=lambda model: model.__name__)
def test_clients_may_read_newer_responses_and_servers_refuse_unknown_keys(model: type[ApiModel]) -> None:
    extra: Any = model.model_config.get("extra")
    assert extra == ("forbid" if issubclass(model, RequestModel) else None)
