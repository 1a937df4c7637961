"""Base class of the API's models, and examples built from their fields."""

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict

JOB_ID = "0198f3c2-7a10-7c3e-9d2b-5b1f6f0c1a2e"
TIME = "2026-01-05T10:00:00.000Z"
MACHINE = "anygpu-0198f3c27a107c3e9d2b5b1f6f0c1a2e-1"


class ApiModel(BaseModel):
    """A request or response of the API.

    `defer_build` compiles validators at their first use, because the start of a server needs none of them.
    """

    model_config = ConfigDict(defer_build=True)


class RequestModel(ApiModel):
    """A JSON request body. Unknown keys and values of the wrong type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def example_of(model: type[BaseModel]) -> dict[str, Any]:
    """Build an example of a model from the `examples` of its fields and of nested models."""
    return {name: _example(info) for name, info in model.model_fields.items()}


def _example(info: Any) -> Any:
    if info.examples:
        return info.examples[0]
    return _from_annotation(info.annotation, info.get_default(call_default_factory=True))


def _from_annotation(annotation: Any, default: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return example_of(annotation)
    arguments = [each for each in get_args(annotation) if each is not NoneType]
    if get_origin(annotation) in (Union, UnionType):
        return _from_annotation(arguments[0], default)
    if get_origin(annotation) is list and arguments:
        return [_from_annotation(arguments[0], default)]
    return default
