"""Sums of the code worked out as Python would, as far as anybody can have meant them."""

import ast
import operator
from collections.abc import Callable

MOST = 1e30
LONGEST_TEXT = 10_000

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def sane(value: object) -> bool:
    """Whether somebody can have meant it: not infinite, no number of thousands of digits, no endless text."""
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    return not isinstance(value, complex) and (not isinstance(value, int | float) or abs(value) <= MOST)


def worked_out(kind: type[ast.operator], left: float, right: float) -> float | None:
    """None where it is not defined, or so large that working it out may never end."""
    does = _OPERATORS.get(kind)
    if does is None or (kind is ast.Pow and (abs(left) > 1e4 or abs(right) > 64)):
        return None
    try:
        found = does(left, right)
    except (ZeroDivisionError, OverflowError):
        return None
    return found if sane(found) else None
