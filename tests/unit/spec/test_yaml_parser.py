"""YAML with line numbers, within limits."""

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec.documents import read_yaml


def refusal(text: str) -> str:
    with pytest.raises(InvalidSpec) as caught:
        read_yaml(text, "job.yaml")
    return str(caught.value)


def test_every_key_remembers_its_line() -> None:
    document = read_yaml("a: 1\nb:\n  c: 2\n  d:\n    - e\n    - f\n")
    lines = {place: document.lines[place] for place in [("a",), ("b",), ("b", "c"), ("b", "d", 1)]}
    assert lines == {("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "d", 1): 6}


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    assert (
        refusal("a: 1\nb: 2\na: 3\n")
        == "job.yaml:3 a: the key is there twice, first on line 1; remove one of the two"
    )


def test_keys_that_look_like_numbers_are_texts() -> None:
    assert read_yaml("{1: a, true: b, null: c}").data == {"1": "a", "true": "b", "null": "c"}


def test_aliases_are_resolved() -> None:
    assert read_yaml("a: &x [1, 2]\nb: *x\n").data == {"a": [1, 2], "b": [1, 2]}


def test_aliases_of_aliases_cannot_fill_the_memory() -> None:
    levels = [f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 9)}]" for n in range(12)]
    assert "more than 20,000 values" in refusal("\n".join(["l0: &l0 [x]", *levels]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested more than"),
        ("{a: " * 100_000, "nested more than"),
        ("- " * 50_000 + "x", "nested more than"),
        ("a: &a [*a]", "an anchor that is not defined"),
        ("? [a]\n: b", "a key must be a string"),
        ("a: &x [1]\n*x : b", "a key must be a string"),
        ("a: b: c", "is not valid YAML"),
        ("a: [", "is not valid YAML"),
        ("a: \x01", "is not valid YAML"),
        ("a: !!python/object/apply:os.system [x]", "is not supported here"),
        ("a: !!python/name:os.system x", "is not supported here"),
        ("a: !!int x", "is not supported here"),
        ("a: 1\n---\nb: 2", "a second YAML document"),
        ("", "is not a mapping"),
        ("just words", "is not a mapping"),
        ("a: " + "x" * (3 << 20), "longer than 2 MiB"),
    ],
)
def test_a_text_that_is_no_spec_is_refused(text: str, said: str) -> None:
    assert said in refusal(text)
