"""Evaluate conditions and arithmetic in the user's code without running the code."""

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Protocol

MAX_CONDITIONS = 12  # limit, since a generated chain of elifs can have thousands
MAX_DEPTH = 20

# Names whose values depend on the machine or process, so they are not known beforehand.
_MACHINE_WORDS = re.compile(r"rank|gpu|cuda|world|distributed|device|master|platform")
_UNKNOWN = object()


class KnownValues(Protocol):
    """Option values that are known without running the code: command line, configuration files, defaults."""

    def option_value(self, name: str, unknown: object) -> object: ...


def is_disabled(told: KnownValues, tests: Sequence[ast.expr]) -> bool:
    """Return whether a piece of code is certainly not run, because one of the conditions `tests` around it is false."""
    return any(evaluate_condition(told, test) is False for test in tests[-MAX_CONDITIONS:])


def evaluate_condition(told: KnownValues, test: ast.expr, depth: int = 0) -> bool | None:
    """Return whether a condition is true or false; None if that is known only when the code runs."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = evaluate_condition(told, test.operand, depth + 1)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        return _evaluate_bool_op(told, test, depth)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _evaluate_comparison(told, test)
    found = _option_value(told, test)
    return None if found is _UNKNOWN else bool(found)


def _evaluate_bool_op(told: KnownValues, test: ast.BoolOp, depth: int) -> bool | None:
    """Evaluate `and` or `or`; None if the operands that are known do not decide the result."""
    parts = [evaluate_condition(told, part, depth + 1) for part in test.values[:MAX_CONDITIONS]]
    decides = isinstance(test.op, ast.Or)
    if decides in parts:
        return decides
    return None if None in parts else not decides


def _evaluate_comparison(told: KnownValues, test: ast.Compare) -> bool | None:
    found, expected = _option_value(told, test.left), _literal(test.comparators[0])
    if found is _UNKNOWN or expected is _UNKNOWN:
        return None
    kind = type(test.ops[0])
    if kind in (ast.In, ast.NotIn):
        inside = isinstance(expected, list) and found in expected
        return (inside == (kind is ast.In)) if isinstance(expected, list) else None
    same = found == expected
    return {ast.Eq: same, ast.Is: same, ast.NotEq: not same, ast.IsNot: not same}.get(kind)


def depends_on_machine(test: ast.expr) -> bool:
    """Return whether a condition depends on the machine, for example on its GPU or on the process rank."""
    return _MACHINE_WORDS.search(ast.unparse(test).lower()) is not None


def _option_value(told: KnownValues, node: ast.expr) -> object:
    """Return the value of an option used as `args.dataset` or by its bare name; else `_UNKNOWN`."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if not name or _MACHINE_WORDS.search(name.lower()):
        return _UNKNOWN
    return told.option_value(name, _UNKNOWN)


def _literal(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        parts = [_literal(part) for part in node.elts]
        return _UNKNOWN if _UNKNOWN in parts else parts
    return _UNKNOWN


MAX_NUMBER = 1e30
MAX_TEXT = 10_000

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def is_plausible(value: object) -> bool:
    """Return whether a value can be a real setting: not infinite, not a huge number, not a very long text."""
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    return not isinstance(value, complex) and (not isinstance(value, int | float) or abs(value) <= MAX_NUMBER)


def apply_operator(kind: type[ast.operator], left: float, right: float) -> float | None:
    """Apply an arithmetic operator; return None if the result is undefined or too large to compute."""
    operation = _OPERATORS.get(kind)
    if operation is None or (kind is ast.Pow and (abs(left) > 1e4 or abs(right) > 64)):
        return None
    try:
        found = operation(left, right)
    except (ZeroDivisionError, OverflowError):
        return None
    return found if is_plausible(found) else None
