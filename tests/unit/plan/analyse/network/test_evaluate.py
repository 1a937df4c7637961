"""Statements of a constructor are evaluated without running them."""

import ast
from typing import Any

import pytest

from anygpu.plan.analyse.network.evaluate import NO_RETURN, UNKNOWN, NamedLayer, evaluate, run_body


class Reader:
    """Evaluates code that calls nothing, and counts its steps."""

    weights = 0

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> None:
        self.steps += 1

    def value(self, node: ast.expr, scope: dict[str, Any]) -> object:
        return evaluate(self, node, scope)

    def call(self, node: ast.Call, scope: dict[str, Any]) -> object:
        return UNKNOWN

    def repeat(self, times: int, weights: int) -> None:
        raise AssertionError("nothing is repeated here")

    def setting_value(self, node: ast.expr) -> object:
        return {"width": 64}.get(ast.unparse(node), UNKNOWN)

    def class_attribute(self, name: str, attribute: str) -> object:
        return UNKNOWN

    def is_layer_class(self, name: str) -> bool:
        return name == "Block"


def run(code: str, **scope: object) -> tuple[object, dict[str, Any]]:
    names = dict(scope)
    return run_body(Reader(), ast.parse(code).body, names), names


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3 * 4 + 1", 13),
        ("7 // 2", 3),
        ("width * 2", 128),
        ("[1, 2][1]", 2),
        ("-3", -3),
        ("1 < 2", True),
        ("4 if 2 > 1 else 8", 4),
        ("Block", NamedLayer("Block")),
        ("nobody_knows", UNKNOWN),
        ("nobody_knows + 1", UNKNOWN),
        ("...", UNKNOWN),
    ],
)
def test_an_expression_has_its_value_or_is_unknown(expression: str, value: object) -> None:
    _, names = run(f"x = {expression}")
    assert names["x"] == value


def test_assignments_reach_names_tuples_and_attributes() -> None:
    _, names = run("a, b = [1, 2]\nself.deep = a + b\nself.deep += 10\nc: int = 5", self={})
    assert (names["a"], names["b"], names["c"], names["self"]) == (1, 2, 5, {"deep": 13})


def test_a_loop_and_a_branch_run_as_often_as_they_would() -> None:
    _, names = run("total = 0\nfor n in [1, 2, 3]:\n    if n > 1:\n        total += n\n")
    assert names["total"] == 5


def test_the_first_return_ends_the_body() -> None:
    assert run("for n in [4, 5]:\n    return n\nreturn 9")[0] == 4
    assert run("x = 1")[0] is NO_RETURN
    assert run("return")[0] is None


def test_every_statement_is_a_step_so_that_a_limit_can_end_it() -> None:
    reader = Reader()
    run_body(reader, ast.parse("for n in [1, 2, 3]:\n    x = n\n").body, {})
    assert reader.steps == 4
