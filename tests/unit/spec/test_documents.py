"""Hostile and odd texts: bounded, and every refusal names a line."""

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec.documents import Document, parse_scalar, read_toml, read_yaml


def test_yaml_1_2_words_are_texts() -> None:
    text = "{a: no, b: on, c: 'true', d: true, e: 0x10, f: 1e3, g: 2030-01-01, h: 12:30, i: ~, j: 0o17}"
    assert read_yaml(text).data == {
        "a": "no",
        "b": "on",
        "c": "true",
        "d": True,
        "e": 16,
        "f": 1000.0,
        "g": "2030-01-01",
        "h": "12:30",
        "i": None,
        "j": 15,
    }


@pytest.mark.parametrize("text", ["a = [" + "[" * 5000, "a = 1\na = 2", "a", "a = 99" + "9" * 5000, "\x00"])
def test_toml_that_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match=r"job\.toml"):
        read_toml(text, "job.toml")


def test_toml_lines_are_found_in_tables_and_arrays() -> None:
    document = read_toml('a.b = 1\n[c]\n"d e" = 2\n[[f]]\ng = 1\n[[f]]\ng = 2\ntext = """\na.b = 3\n"""\n')
    assert document.lines[("a", "b")] == 1
    assert document.lines[("c", "d e")] == 3
    assert document.lines[("f", 1, "g")] == 7


def test_a_document_without_marks_is_complete() -> None:
    assert Document({"script": "a"}) == Document({"script": "a"}, "spec", {})


@pytest.mark.parametrize("text", ["1_000", "1:30", "0b1", "yes", "2030-01-01", "1e", "--1", "9" * 500])
def test_ambiguous_numbers_are_texts(text: str) -> None:
    assert parse_scalar(text) == text
