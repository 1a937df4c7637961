"""Statements and expressions of a constructor, followed with the values that can be known."""

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from anygpu.plan.analyse.arithmetic import worked_out

Scope = dict[str, object]

MOST_ROUNDS = 400
LONGEST_LIST = 10 * MOST_ROUNDS


class _Sentinel:
    """Stands for itself."""


UNKNOWN = _Sentinel()
GOES_ON = _Sentinel()  # a body that ended without a return


@dataclass(frozen=True, slots=True)
class Module:
    """Something made of layers."""

    weights: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """What flows through layers, without its batch."""

    shape: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """A kind of layer or network handed around by its name: block=BasicBlock."""

    name: str


class Follower(Protocol):
    """Who knows what calls make and what other names stand for."""

    weights: int

    def step(self) -> None: ...
    def value(self, node: ast.expr, scope: Scope) -> object: ...
    def call(self, node: ast.Call, scope: Scope) -> object: ...
    def again(self, times: int, weights: int) -> None: ...
    def setting(self, node: ast.expr) -> object: ...
    def of_class(self, name: str, attribute: str) -> object: ...
    def is_kind(self, name: str) -> bool: ...


_COMPARES: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: lambda a, b: isinstance(a, int | float) and isinstance(b, int | float) and a < b,
    ast.LtE: lambda a, b: isinstance(a, int | float) and isinstance(b, int | float) and a <= b,
    ast.Gt: lambda a, b: isinstance(a, int | float) and isinstance(b, int | float) and a > b,
    ast.GtE: lambda a, b: isinstance(a, int | float) and isinstance(b, int | float) and a >= b,
    ast.In: lambda a, b: a in b if isinstance(b, list) else isinstance(b, str) and str(a) in b,
    ast.NotIn: lambda a, b: not _COMPARES[ast.In](a, b),
}


def run(who: Follower, body: Iterable[ast.stmt], scope: Scope) -> object:
    """The value returned, or GOES_ON."""
    for statement in body:
        who.step()
        found = _statement(who, statement, scope)
        if found is not GOES_ON:
            return found
    return GOES_ON


def _statement(who: Follower, statement: ast.stmt, scope: Scope) -> object:
    if isinstance(statement, ast.Return):
        return who.value(statement.value, scope) if statement.value is not None else None
    if isinstance(statement, ast.Assign):
        found = who.value(statement.value, scope)
        for target in statement.targets:
            _assign(target, found, scope)
            _tie(who, target, statement.value, scope)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        _assign(statement.target, who.value(statement.value, scope), scope)
    elif isinstance(statement, ast.AugAssign):
        _assign(statement.target, _changed(who, statement, scope), scope)
    elif isinstance(statement, ast.Expr):
        who.value(statement.value, scope)
    elif isinstance(statement, ast.For):
        return _loop(who, statement, scope)
    elif isinstance(statement, ast.If):
        taken = who.value(statement.test, scope)
        return run(who, statement.orelse if _is_false(taken) else statement.body, scope)
    elif isinstance(statement, ast.With | ast.Try):
        return run(who, statement.body, scope)
    return GOES_ON


def _tie(who: Follower, target: ast.expr, shared: ast.expr, scope: Scope) -> None:
    """self.head.weight = self.embedding.weight: one matrix for both."""
    if not isinstance(target, ast.Attribute) or not isinstance(shared, ast.Attribute):
        return
    for node in (target.value, shared.value) if target.attr == shared.attr == "weight" else ():
        module = held(node, scope)
        if isinstance(module, Module):
            who.weights -= module.weights
            _assign(node, Module(0), scope)  # tied once
            return


def _is_false(found: object) -> bool:
    return not isinstance(found, _Sentinel | Module | Tensor | Named) and not found


def _changed(who: Follower, statement: ast.AugAssign, scope: Scope) -> object:
    before, more = who.value(statement.target, scope), who.value(statement.value, scope)
    return _combined(type(statement.op), before, more)


def _assign(target: ast.expr, found: object, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        scope[target.id] = found
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        me = scope.get(target.value.id)
        if isinstance(me, dict):
            me[target.attr] = found
    elif isinstance(target, ast.Tuple | ast.List):
        parts = found if isinstance(found, list) and len(found) == len(target.elts) else None
        for at, part in enumerate(target.elts):
            _assign(part, parts[at] if parts is not None else UNKNOWN, scope)


def _loop(who: Follower, statement: ast.For, scope: Scope) -> object:
    over = who.value(statement.iter, scope)
    for item in over[:MOST_ROUNDS] if isinstance(over, list) else [UNKNOWN]:
        _assign(statement.target, item, scope)
        found = run(who, statement.body, scope)
        if found is not GOES_ON:
            return found
    return GOES_ON


def value(who: Follower, node: ast.expr, scope: Scope) -> object:
    """What an expression comes to."""
    reader = _READERS.get(type(node))
    return reader(who, node, scope) if reader is not None else UNKNOWN


def held(node: ast.expr, scope: Scope) -> object:
    """What the scope holds under a name or as an attribute of self."""
    if isinstance(node, ast.Name):
        return scope.get(node.id, UNKNOWN)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        me = scope.get(node.value.id)
        return me.get(node.attr, UNKNOWN) if isinstance(me, dict) else UNKNOWN
    return UNKNOWN


def _constant(who: Follower, node: ast.Constant, scope: Scope) -> object:
    return UNKNOWN if node.value is ... else node.value


def _name(who: Follower, node: ast.Name, scope: Scope) -> object:
    if node.id in scope:
        return scope[node.id]
    return Named(node.id) if who.is_kind(node.id) else who.setting(node)


def _attribute(who: Follower, node: ast.Attribute, scope: Scope) -> object:
    found = held(node, scope)
    if found is not UNKNOWN:
        return found
    if who.is_kind(node.attr):
        return Named(node.attr)
    of = held(node.value, scope)
    if isinstance(of, Named):
        return who.of_class(of.name, node.attr)
    if isinstance(node.value, ast.Name) and who.is_kind(node.value.id):
        return who.of_class(node.value.id, node.attr)
    return who.setting(node)


def _several(who: Follower, node: ast.List | ast.Tuple, scope: Scope) -> object:
    found: list[object] = []
    for part in node.elts:
        if isinstance(part, ast.Starred):
            inner = who.value(part.value, scope)
            found += inner if isinstance(inner, list) else [UNKNOWN]
        else:
            found.append(who.value(part, scope))
    return found


def _binary(who: Follower, node: ast.BinOp, scope: Scope) -> object:
    before = who.weights
    left = who.value(node.left, scope)
    made = who.weights - before
    right = who.value(node.right, scope)
    if isinstance(left, list) and isinstance(right, int) and isinstance(node.op, ast.Mult):
        who.again(right, made)
    return _combined(type(node.op), left, right)


def _combined(kind: type[ast.operator], left: object, right: object) -> object:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return left if isinstance(left, Tensor) else right
    if isinstance(left, list):
        if kind is ast.Add and isinstance(right, list):
            return left + right if len(left) + len(right) <= LONGEST_LIST else UNKNOWN
        many = isinstance(right, int) and 0 <= right * len(left) <= MOST_ROUNDS
        return left * right if kind is ast.Mult and many and isinstance(right, int) else UNKNOWN
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    found = worked_out(kind, left, right)
    return UNKNOWN if found is None else found


def _unary(who: Follower, node: ast.UnaryOp, scope: Scope) -> object:
    found = who.value(node.operand, scope)
    if isinstance(node.op, ast.Not):
        return UNKNOWN if found is UNKNOWN else _is_false(found)
    sign = isinstance(node.op, ast.USub) and isinstance(found, int | float)
    return -found if sign and isinstance(found, int | float) else found


def _choice(who: Follower, node: ast.IfExp, scope: Scope) -> object:
    return who.value(node.orelse if _is_false(who.value(node.test, scope)) else node.body, scope)


def _either(who: Follower, node: ast.BoolOp, scope: Scope) -> object:
    """`a or b` is the first that holds, `a and b` the first that does not."""
    wanted = isinstance(node.op, ast.And)
    found: object = UNKNOWN
    for part in node.values:
        found = who.value(part, scope)
        if found is UNKNOWN or _is_false(found) is wanted:
            return found
    return found


def _compare(who: Follower, node: ast.Compare, scope: Scope) -> object:
    left, right = who.value(node.left, scope), who.value(node.comparators[0], scope)
    does = _COMPARES.get(type(node.ops[0]))
    if does is None or len(node.ops) > 1 or not _is_flat(left) or not _is_flat(right):
        return UNKNOWN
    return does(left, right)


def _is_flat(found: object) -> bool:
    """Known, and quickly compared: two lists of lists of lists take forever."""
    parts = found if isinstance(found, list) else [found]
    plain = all(isinstance(part, int | float | str | Named | Module | None) for part in parts)
    return plain and len(parts) <= LONGEST_LIST


def _subscript(who: Follower, node: ast.Subscript, scope: Scope) -> object:
    table = who.value(node.value, scope) if not isinstance(node.value, ast.Dict) else UNKNOWN
    if not isinstance(table, list):
        return who.setting(node)
    if isinstance(node.slice, ast.Slice):
        ends = [who.value(e, scope) if e is not None else None for e in (node.slice.lower, node.slice.upper)]
        known = [e for e in ends if e is None or isinstance(e, int)]
        return table[known[0] : known[1]] if len(known) == 2 else UNKNOWN
    at = who.value(node.slice, scope)
    return table[at] if isinstance(at, int) and -len(table) <= at < len(table) else UNKNOWN


def _repeated(who: Follower, node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> object:
    first = node.generators[0]
    over = who.value(first.iter, scope)
    found: list[object] = []
    inside = dict(scope)
    for item in over[:MOST_ROUNDS] if isinstance(over, list) else [UNKNOWN]:
        _assign(first.target, item, inside)
        if not any(_is_false(who.value(test, inside)) for test in first.ifs):
            found.append(who.value(node.elt, inside))
    return found


def _call(who: Follower, node: ast.Call, scope: Scope) -> object:
    return who.call(node, scope)


def builtin(name: str, given: list[object], node: ast.Call, scope: Scope) -> object:
    """Python's own functions on what is known."""
    if name in ("append", "extend") and isinstance(node.func, ast.Attribute):
        kept = held(node.func.value, scope)
        if isinstance(kept, list) and given and len(kept) < MOST_ROUNDS:
            kept += given[0] if name == "extend" and isinstance(given[0], list) else given[:1]
            return None
    does = _BUILTINS.get(name)
    if does is None or not isinstance(node.func, ast.Name) or not given:
        return UNKNOWN
    if any(each is UNKNOWN or isinstance(each, str) for each in given) and name not in ("int", "float"):
        return UNKNOWN
    if name in ("max", "min", "sum") and not all(map(_is_flat, given)):
        return UNKNOWN
    try:
        return does(*given)
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN


def _range(*bounds: int) -> list[int]:
    return list(range(*bounds)[:MOST_ROUNDS])


_BUILTINS: dict[str, Callable[..., object]] = {
    "range": _range,
    "len": len,
    "int": int,
    "float": float,
    "max": max,
    "min": min,
    "sum": sum,
    "round": round,
    "list": list,
    "tuple": list,
    "reversed": lambda parts: list(reversed(parts)),
    "enumerate": lambda parts: [[at, part] for at, part in enumerate(parts)],
    "zip": lambda *parts: [list(pair) for pair in zip(*parts, strict=False)],
}
_READERS: dict[type[ast.expr], Callable[[Follower, ast.expr, Scope], object]] = {
    ast.Constant: _constant,  # type: ignore[dict-item]
    ast.Name: _name,  # type: ignore[dict-item]
    ast.Attribute: _attribute,  # type: ignore[dict-item]
    ast.List: _several,  # type: ignore[dict-item]
    ast.Tuple: _several,  # type: ignore[dict-item]
    ast.BinOp: _binary,  # type: ignore[dict-item]
    ast.UnaryOp: _unary,  # type: ignore[dict-item]
    ast.IfExp: _choice,  # type: ignore[dict-item]
    ast.BoolOp: _either,  # type: ignore[dict-item]
    ast.Compare: _compare,  # type: ignore[dict-item]
    ast.Subscript: _subscript,  # type: ignore[dict-item]
    ast.ListComp: _repeated,  # type: ignore[dict-item]
    ast.GeneratorExp: _repeated,  # type: ignore[dict-item]
    ast.Call: _call,  # type: ignore[dict-item]
}
