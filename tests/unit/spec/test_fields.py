"""Field types accept what people write and say what is wrong with the rest."""

from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError

from anygpu.spec.fields import (
    FieldErrors,
    Line,
    Microdollars,
    RelativePath,
    Seconds,
    SpecModel,
    Text,
    Word,
    path_fault,
    require_relative_path,
)


class Limits(SpecModel):
    aliases: ClassVar = {"timeout": "timeout_s", "max_cost": "max_cost_microusd"}

    timeout_s: Seconds = 60.0
    max_cost_microusd: Microdollars = 0
    note: Line | None = None


def parse(kind: Any, value: Any) -> Any:
    return TypeAdapter(kind).validate_python(value)


def test_an_alias_may_have_another_unit() -> None:
    assert Limits.model_validate({"timeout": "2m", "max_cost": 3}) == Limits(
        timeout_s=120, max_cost_microusd=3_000_000
    )
    assert Limits(max_cost_microusd=3).max_cost_microusd == 3


def test_a_field_and_its_alias_together_are_refused() -> None:
    with pytest.raises(ValidationError, match="is another name of 'timeout_s'") as refused:
        Limits.model_validate({"timeout": "2m", "timeout_s": 120})
    cause = refused.value.errors()[0]["ctx"]["error"]
    assert isinstance(cause, FieldErrors)
    assert cause.findings[0][0] == ("timeout",)


def test_null_means_the_default_and_unknown_keys_are_refused() -> None:
    assert Limits.model_validate({"timeout": None, "note": None}) == Limits()
    with pytest.raises(ValidationError, match="Extra inputs"):
        Limits.model_validate({"timeuot": 3})


def test_the_schema_has_the_aliases() -> None:
    properties = Limits.model_json_schema()["properties"]
    assert properties["timeout"]["description"] == "`timeout_s`, with units"


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (1.5, "1.5"), (True, "true"), ("x", "x")])
def test_numbers_and_booleans_are_text_where_text_is_wanted(value: Any, text: str) -> None:
    assert parse(Text, value) == text


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "x" * 1001])
def test_a_line_has_visible_text_and_no_control_characters(value: str) -> None:
    assert parse(Line, "a line of text") == "a line of text"
    with pytest.raises(ValidationError):
        parse(Line, value)


@pytest.mark.parametrize("value", ["", "-x", "a b", "é"])
def test_a_word_has_only_safe_characters(value: str) -> None:
    assert parse(Word, "us-east-1/a:b+c") == "us-east-1/a:b+c"
    with pytest.raises(ValidationError):
        parse(Word, value)


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("", "is empty"),
        ("/etc", "is an absolute path"),
        ("\\etc", "is an absolute path"),
        ("C:etc", "is an absolute path"),
        ("a/../../b", "leads outside"),
        ("a\\..\\..\\b", "leads outside"),
    ],
)
def test_a_path_stays_in_its_directory_on_every_operating_system(path: str, fault: str) -> None:
    assert fault in path_fault(path)
    with pytest.raises(ValidationError, match=fault):
        parse(RelativePath, path)


def test_a_relative_path_is_accepted_as_it_is() -> None:
    assert require_relative_path("runs/a..b/model.pt") == "runs/a..b/model.pt"
    assert path_fault("runs") == ""
