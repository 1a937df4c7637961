"""docs/reference/job-spec.md describes every field, and its examples load."""

import re
from pathlib import Path

import pytest

from anygpu.spec import JobSpec, from_toml, from_yaml
from anygpu.spec.load import keys_at

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "job-spec.md").read_text(
    encoding="utf-8"
)
EXAMPLES = re.findall(r"^```(yaml|toml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SECTIONS = [("resources", "gpu"), *((name,) for name in JobSpec.model_fields if keys_at((name,)))]
ROW = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)


def described(section: tuple[str, ...]) -> set[str]:
    """The names in the first column of the tables under a section's heading, or of the whole page."""
    heading = rf"^#+ {section[0]}$(.*?)(?=^#|\Z)" if section else r"(.*)"
    text = re.search(heading, PAGE, re.MULTILINE | re.DOTALL)
    cells = ROW.findall(text[1]) if text else []
    return {name.split(".")[-1] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("section", [(), *SECTIONS], ids=lambda section: ".".join(section) or "top")
def test_every_field_is_described(section: tuple[str, ...]) -> None:
    assert set(keys_at(section)) - described(section) == set()


def test_no_table_describes_a_field_that_is_not_there() -> None:
    known = {name for section in [(), *SECTIONS] for name in keys_at(section)}
    assert described(()) - known == set()


@pytest.mark.parametrize(("language", "text"), EXAMPLES)
def test_every_example_loads(language: str, text: str) -> None:
    spec = (from_yaml if language == "yaml" else from_toml)(text, "docs/reference/job-spec.md")
    assert spec.kind in ("script", "command", "trainer", "code")


def test_the_yaml_and_the_toml_example_are_the_same_job() -> None:
    [toml] = [text for language, text in EXAMPLES if language == "toml"]
    larger = [text for language, text in EXAMPLES if language == "yaml"][1]
    assert from_toml(toml) == from_yaml(larger)
