"""The JSON schema of a trainer's settings says what the trainer accepts."""

from typing import Any

import pytest

from anygpu.trainers import BadConfig, find
from anygpu.trainers.contract import AnyTrainer
from anygpu.trainers.registry import BUILT_IN
from anygpu.trainers.settings_schema import COMMON, settings_schema

EXAMPLES = {"string": "x", "boolean": True, "array": ["x"]}
STEP = {"integer": 1, "number": 1e-6}


def properties(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = settings_schema(find(name))["properties"]
    return found


def accepted(kind: type[AnyTrainer], **settings: Any) -> str:
    """Return what the trainer says about one of these settings; empty if it accepts them."""
    needed = dict.fromkeys(kind.required_settings, "column")
    try:
        kind.parse_settings({**needed, **settings})
    except BadConfig as error:
        named = [line for line in str(error).splitlines() if line.partition(":")[0] in settings]
        return "\n".join(named)
    return ""


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_trainer_has_a_title_and_a_description(name: str) -> None:
    kind = find(name)
    assert kind.title
    assert kind.description.endswith(".")


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_schema_has_exactly_the_settings_that_the_trainer_knows(name: str) -> None:
    kind = find(name)
    assert set(properties(name)) == (set(COMMON) - kind.accepts.ignores) | kind.accepts.options
    assert "no such setting" in accepted(kind, unheard_of=1)


@pytest.mark.parametrize("name", BUILT_IN)
def test_defaults_are_accepted(name: str) -> None:
    kind = find(name)
    defaults = {key: schema["default"] for key, schema in properties(name).items() if "default" in schema}
    assert (
        accepted(kind, **{key: each for key, each in defaults.items() if key not in ("class_weights",)}) == ""
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_values_at_the_bounds_are_accepted_and_values_beyond_are_refused(name: str) -> None:
    kind = find(name)
    for key, schema in properties(name).items():
        step = STEP.get(str(schema.get("type")), 0)
        for bound, sign in (("minimum", -1), ("maximum", 1)):
            if bound in schema and not _depends_on_others(key):
                assert accepted(kind, **{key: schema[bound]}) == "", (key, bound)
                assert accepted(kind, **{key: schema[bound] + sign * step}), (key, bound)
        for bound in ("exclusiveMinimum", "exclusiveMaximum"):
            if bound in schema:
                assert accepted(kind, **{key: schema[bound]}), (key, bound)


def _depends_on_others(key: str) -> bool:
    """Return whether the trainer compares the value with other settings too."""
    return key in ("image_size", "width", "heads", "test_fraction", "learning_rate")


@pytest.mark.parametrize("name", BUILT_IN)
def test_values_of_another_type_and_outside_the_choices_are_refused(name: str) -> None:
    kind = find(name)
    for key, schema in properties(name).items():
        if "enum" in schema:
            assert accepted(kind, **{key: "no such choice"}), key
        if schema.get("type") in ("integer", "number"):
            assert accepted(kind, **{key: "many"}), key
