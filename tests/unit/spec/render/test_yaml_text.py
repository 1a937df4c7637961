"""A spec mapping becomes YAML that our loader reads to the same values."""

from typing import Any

import pytest

from anygpu.spec.documents import read_yaml
from anygpu.spec.render.yaml_text import yaml_document


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "0o17",
        "1e5",
        "null",
        "yes",
        "on",
        "12:30:00",
        "~",
        "{a: 1}",
        "# no comment",
        "two\nlines\n",
        "\x1b[0m",
        "\u202eevil",
        12,
        1.5,
        True,
        None,
        ["a", "1"],
        {"a": {"b": "2"}},
    ],
)
def test_a_value_is_read_back_as_it_was(value: Any) -> None:
    assert read_yaml(yaml_document({"x": value})).data == {"x": value}


def test_the_order_of_the_fields_is_kept_and_texts_of_several_lines_are_blocks() -> None:
    assert yaml_document({"name": "b", "code": "one\n\ntwo\n", "args": ["x"]}) == (
        "name: b\ncode: |\n  one\n\n  two\nargs:\n- x\n"
    )


def test_equal_parts_are_written_twice_instead_of_by_reference() -> None:
    part = {"a": 1}
    assert yaml_document({"x": part, "y": part}) == "x:\n  a: 1\ny:\n  a: 1\n"


def test_characters_that_a_terminal_interprets_are_escaped() -> None:
    text = yaml_document({"x": "\x1b[31mred", "y": "\u202e"})
    assert all(character.isprintable() or character == "\n" for character in text)
