"""A spec mapping becomes Python code with nothing but literals in it."""

import ast
from typing import Any

import pytest

from anygpu.spec.render.python_text import LINE_WIDTH, python_code


def arguments(code: str) -> dict[str, Any]:
    """Return the arguments of the only `submit` call."""
    (call,) = (
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "submit"
    )
    return {word.arg or "": ast.literal_eval(word.value) for word in call.keywords}


@pytest.mark.parametrize(
    "text", ["plain", "it's", '"""', "a\\b", "two\nlines\n", 'ends with "', "\x1b[0m", "\u202e", "'); exit()"]
)
def test_a_text_is_the_same_after_the_code_was_parsed(text: str) -> None:
    code = python_code({"code": text})
    assert arguments(code) == {"code": text}
    assert all(character.isprintable() or character == "\n" for character in code)


def test_long_values_are_wrapped_and_short_ones_are_not() -> None:
    mapping = {"args": ["--epochs", "3"], "env": {f"NAME_{n}": "x" * 30 for n in range(4)}}
    code = python_code(mapping)
    assert "    args=['--epochs', '3'],\n" in code
    assert max(map(len, code.splitlines())) <= LINE_WIDTH
    assert arguments(code) == mapping


def test_requirements_have_the_name_of_the_parameter_and_nulls_are_left_out() -> None:
    assert arguments(python_code({"requirements": ["torch"], "name": None})) == {"packages": ["torch"]}
