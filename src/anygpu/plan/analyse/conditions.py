"""Conditions that are known without running: `if args.dataset == "cifar10":` when another one is asked for."""

import ast
import re
from collections.abc import Sequence
from typing import Protocol

NEAREST = 12  # conditions that are looked at: a generated chain of elifs has thousands
DEEPEST = 20

# The same code runs on every machine and in every process: what these are is not known beforehand.
_OF_THE_MACHINE = re.compile(r"rank|gpu|cuda|world|distributed|device|master|platform")
_UNKNOWN = object()


class Told(Protocol):
    """What the command line, the configuration and the options' defaults say of a name."""

    def option(self, name: str, unknown: object) -> object: ...


def off(told: Told, tests: Sequence[ast.expr]) -> bool:
    """Whether one of the conditions around a piece of code is known not to hold."""
    return any(holds(told, test) is False for test in tests[-NEAREST:])


def holds(told: Told, test: ast.expr, depth: int = 0) -> bool | None:
    """True, False, or None when only the running code knows."""
    if depth > DEEPEST:
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = holds(told, test.operand, depth + 1)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        return _joined(told, test, depth)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(told, test)
    found = _asked(told, test)
    return None if found is _UNKNOWN else bool(found)


def _joined(told: Told, test: ast.BoolOp, depth: int) -> bool | None:
    """One that does not hold decides an `and`, one that holds an `or`."""
    parts = [holds(told, part, depth + 1) for part in test.values[:NEAREST]]
    decides = isinstance(test.op, ast.Or)
    if decides in parts:
        return decides
    return None if None in parts else not decides


def _compared(told: Told, test: ast.Compare) -> bool | None:
    found, wanted = _asked(told, test.left), _written(test.comparators[0])
    if found is _UNKNOWN or wanted is _UNKNOWN:
        return None
    kind = type(test.ops[0])
    if kind in (ast.In, ast.NotIn):
        inside = isinstance(wanted, list) and found in wanted
        return (inside == (kind is ast.In)) if isinstance(wanted, list) else None
    same = found == wanted
    return {ast.Eq: same, ast.Is: same, ast.NotEq: not same, ast.IsNot: not same}.get(kind)


def of_the_machine(test: ast.expr) -> bool:
    """Whether it asks for a GPU, a rank or the like."""
    return _OF_THE_MACHINE.search(ast.unparse(test).lower()) is not None


def _asked(told: Told, node: ast.expr) -> object:
    """What an option is: `args.dataset`, or its bare name."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if not name or _OF_THE_MACHINE.search(name.lower()):
        return _UNKNOWN
    return told.option(name, _UNKNOWN)


def _written(node: ast.expr) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        parts = [_written(part) for part in node.elts]
        return _UNKNOWN if _UNKNOWN in parts else parts
    return _UNKNOWN
