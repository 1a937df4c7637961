"""Evaluate the statements and expressions of a network's constructor without running it.

A value that cannot be known without running the code is `UNKNOWN`.
"""

import ast
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from anygpu.plan.analyse.code.conditions import apply_operator

Scope = dict[str, object]

MAX_ITERATIONS = 400
MAX_LIST = 10 * MAX_ITERATIONS


class _Sentinel:
    """The type of special values that are compared by identity."""


UNKNOWN = _Sentinel()
NO_RETURN = _Sentinel()  # a body that ended without a return


@dataclass(frozen=True, slots=True)
class BuiltModule:
    """A layer or block of the network, with its number of weights."""

    weights: int


@dataclass(frozen=True, slots=True)
class TensorShape:
    """Shape of a tensor without the batch dimension."""

    shape: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NamedLayer:
    """A layer or network class that is passed as a value, such as `block=BasicBlock`."""

    name: str


class Evaluator(Protocol):
    """Interface of the object that counts weights (`NetworkBuilder`), as far as this module uses it."""

    weights: int

    def step(self) -> None: ...
    def value(self, node: ast.expr, scope: Scope) -> object: ...
    def call(self, node: ast.Call, scope: Scope) -> object: ...
    def repeat(self, times: int, weights: int) -> None: ...
    def setting_value(self, node: ast.expr) -> object: ...
    def class_attribute(self, name: str, attribute: str) -> object: ...
    def is_layer_class(self, name: str) -> bool: ...


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


def run_body(evaluator: Evaluator, body: Iterable[ast.stmt], scope: Scope) -> object:
    """Evaluate statements and return the value of their `return`; `NO_RETURN` if they have none."""
    for statement in body:
        evaluator.step()
        result = _statement(evaluator, statement, scope)
        if result is not NO_RETURN:
            return result
    return NO_RETURN


def _statement(evaluator: Evaluator, statement: ast.stmt, scope: Scope) -> object:
    if isinstance(statement, ast.Return):
        return evaluator.value(statement.value, scope) if statement.value is not None else None
    if isinstance(statement, ast.Assign):
        result = evaluator.value(statement.value, scope)
        for target in statement.targets:
            _assign(target, result, scope)
            _tie(evaluator, target, statement.value, scope)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        _assign(statement.target, evaluator.value(statement.value, scope), scope)
    elif isinstance(statement, ast.AugAssign):
        _assign(statement.target, _augmented(evaluator, statement, scope), scope)
    elif isinstance(statement, ast.Expr):
        evaluator.value(statement.value, scope)
    elif isinstance(statement, ast.For):
        return _loop(evaluator, statement, scope)
    elif isinstance(statement, ast.If):
        taken = evaluator.value(statement.test, scope)
        return run_body(evaluator, statement.orelse if _is_false(taken) else statement.body, scope)
    elif isinstance(statement, ast.With | ast.Try):
        return run_body(evaluator, statement.body, scope)
    return NO_RETURN


def _tie(evaluator: Evaluator, target: ast.expr, shared: ast.expr, scope: Scope) -> None:
    """Subtract weights that two layers share, as after `self.head.weight = self.embedding.weight`."""
    if not isinstance(target, ast.Attribute) or not isinstance(shared, ast.Attribute):
        return
    for node in (target.value, shared.value) if target.attr == shared.attr == "weight" else ():
        module = scope_value(node, scope)
        if isinstance(module, BuiltModule):
            evaluator.weights -= module.weights
            _assign(node, BuiltModule(0), scope)  # tied once
            return


def _is_false(result: object) -> bool:
    return not isinstance(result, _Sentinel | BuiltModule | TensorShape | NamedLayer) and not result


def _augmented(evaluator: Evaluator, statement: ast.AugAssign, scope: Scope) -> object:
    before, more = evaluator.value(statement.target, scope), evaluator.value(statement.value, scope)
    return _apply_operator(type(statement.op), before, more)


def _assign(target: ast.expr, result: object, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        scope[target.id] = result
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        instance = scope.get(target.value.id)
        if isinstance(instance, dict):
            instance[target.attr] = result
    elif isinstance(target, ast.Tuple | ast.List):
        parts = result if isinstance(result, list) and len(result) == len(target.elts) else None
        for at, part in enumerate(target.elts):
            _assign(part, parts[at] if parts is not None else UNKNOWN, scope)


def _loop(evaluator: Evaluator, statement: ast.For, scope: Scope) -> object:
    over = evaluator.value(statement.iter, scope)
    for item in over[:MAX_ITERATIONS] if isinstance(over, list) else [UNKNOWN]:
        _assign(statement.target, item, scope)
        result = run_body(evaluator, statement.body, scope)
        if result is not NO_RETURN:
            return result
    return NO_RETURN


def evaluate(evaluator: Evaluator, node: ast.expr, scope: Scope) -> object:
    """Return the value of an expression; UNKNOWN if it cannot be known."""
    reader = _READERS.get(type(node))
    return reader(evaluator, node, scope) if reader is not None else UNKNOWN


def scope_value(node: ast.expr, scope: Scope) -> object:
    """Return the value of a name or of an attribute of `self` in a scope; UNKNOWN if there is none."""
    if isinstance(node, ast.Name):
        return scope.get(node.id, UNKNOWN)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        instance = scope.get(node.value.id)
        return instance.get(node.attr, UNKNOWN) if isinstance(instance, dict) else UNKNOWN
    return UNKNOWN


def _constant(evaluator: Evaluator, node: ast.Constant, scope: Scope) -> object:
    return UNKNOWN if node.value is ... else node.value


def _name(evaluator: Evaluator, node: ast.Name, scope: Scope) -> object:
    if node.id in scope:
        return scope[node.id]
    return NamedLayer(node.id) if evaluator.is_layer_class(node.id) else evaluator.setting_value(node)


def _attribute(evaluator: Evaluator, node: ast.Attribute, scope: Scope) -> object:
    result = scope_value(node, scope)
    if result is not UNKNOWN:
        return result
    if evaluator.is_layer_class(node.attr):
        return NamedLayer(node.attr)
    of = scope_value(node.value, scope)
    if isinstance(of, NamedLayer):
        return evaluator.class_attribute(of.name, node.attr)
    if isinstance(node.value, ast.Name) and evaluator.is_layer_class(node.value.id):
        return evaluator.class_attribute(node.value.id, node.attr)
    return evaluator.setting_value(node)


def _sequence(evaluator: Evaluator, node: ast.List | ast.Tuple, scope: Scope) -> object:
    result: list[object] = []
    for part in node.elts:
        if isinstance(part, ast.Starred):
            inner = evaluator.value(part.value, scope)
            result += inner if isinstance(inner, list) else [UNKNOWN]
        else:
            result.append(evaluator.value(part, scope))
    return result


def _binary(evaluator: Evaluator, node: ast.BinOp, scope: Scope) -> object:
    before = evaluator.weights
    left = evaluator.value(node.left, scope)
    made = evaluator.weights - before
    right = evaluator.value(node.right, scope)
    if isinstance(left, list) and isinstance(right, int) and isinstance(node.op, ast.Mult):
        evaluator.repeat(right, made)
    return _apply_operator(type(node.op), left, right)


def _apply_operator(kind: type[ast.operator], left: object, right: object) -> object:
    if isinstance(left, TensorShape) or isinstance(right, TensorShape):
        return left if isinstance(left, TensorShape) else right
    if isinstance(left, list):
        if kind is ast.Add and isinstance(right, list):
            return left + right if len(left) + len(right) <= MAX_LIST else UNKNOWN
        many = isinstance(right, int) and 0 <= right * len(left) <= MAX_ITERATIONS
        return left * right if kind is ast.Mult and many and isinstance(right, int) else UNKNOWN
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    result = apply_operator(kind, left, right)
    return UNKNOWN if result is None else result


def _unary(evaluator: Evaluator, node: ast.UnaryOp, scope: Scope) -> object:
    result = evaluator.value(node.operand, scope)
    if isinstance(node.op, ast.Not):
        return UNKNOWN if result is UNKNOWN else _is_false(result)
    sign = isinstance(node.op, ast.USub) and isinstance(result, int | float)
    return -result if sign and isinstance(result, int | float) else result


def _conditional(evaluator: Evaluator, node: ast.IfExp, scope: Scope) -> object:
    return evaluator.value(node.orelse if _is_false(evaluator.value(node.test, scope)) else node.body, scope)


def _bool_op(evaluator: Evaluator, node: ast.BoolOp, scope: Scope) -> object:
    """Evaluate `and` or `or` like Python; UNKNOWN if an operand that decides the result is unknown."""
    wanted = isinstance(node.op, ast.And)
    result: object = UNKNOWN
    for part in node.values:
        result = evaluator.value(part, scope)
        if result is UNKNOWN or _is_false(result) is wanted:
            return result
    return result


def _compare(evaluator: Evaluator, node: ast.Compare, scope: Scope) -> object:
    left, right = evaluator.value(node.left, scope), evaluator.value(node.comparators[0], scope)
    operation = _COMPARES.get(type(node.ops[0]))
    if operation is None or len(node.ops) > 1 or not _is_flat(left) or not _is_flat(right):
        return UNKNOWN
    return operation(left, right)


def _is_flat(result: object) -> bool:
    """Return whether a value is known and fast to compare, unlike lists that are nested or very long."""
    parts = result if isinstance(result, list) else [result]
    plain = all(isinstance(part, int | float | str | NamedLayer | BuiltModule | None) for part in parts)
    return plain and len(parts) <= MAX_LIST


def _subscription(evaluator: Evaluator, node: ast.Subscript, scope: Scope) -> object:
    table = evaluator.value(node.value, scope) if not isinstance(node.value, ast.Dict) else UNKNOWN
    if not isinstance(table, list):
        return evaluator.setting_value(node)
    if isinstance(node.slice, ast.Slice):
        ends = [
            evaluator.value(e, scope) if e is not None else None for e in (node.slice.lower, node.slice.upper)
        ]
        known = [e for e in ends if e is None or isinstance(e, int)]
        return table[known[0] : known[1]] if len(known) == 2 else UNKNOWN
    at = evaluator.value(node.slice, scope)
    return table[at] if isinstance(at, int) and -len(table) <= at < len(table) else UNKNOWN


def _comprehension(evaluator: Evaluator, node: ast.ListComp | ast.GeneratorExp, scope: Scope) -> object:
    first = node.generators[0]
    over = evaluator.value(first.iter, scope)
    result: list[object] = []
    inside = dict(scope)
    for item in over[:MAX_ITERATIONS] if isinstance(over, list) else [UNKNOWN]:
        _assign(first.target, item, inside)
        if not any(_is_false(evaluator.value(test, inside)) for test in first.ifs):
            result.append(evaluator.value(node.elt, inside))
    return result


def _call(evaluator: Evaluator, node: ast.Call, scope: Scope) -> object:
    return evaluator.call(node, scope)


def builtin(name: str, arguments: list[object], node: ast.Call, scope: Scope) -> object:
    """Evaluate a call of `append`, `extend` or a built-in function such as `range`.

    Return UNKNOWN for other functions and for unknown arguments.
    """
    if name in ("append", "extend") and isinstance(node.func, ast.Attribute):
        kept = scope_value(node.func.value, scope)
        if isinstance(kept, list) and arguments and len(kept) < MAX_ITERATIONS:
            kept += arguments[0] if name == "extend" and isinstance(arguments[0], list) else arguments[:1]
            return None
    operation = _BUILTINS.get(name)
    if operation is None or not isinstance(node.func, ast.Name) or not arguments:
        return UNKNOWN
    if any(each is UNKNOWN or isinstance(each, str) for each in arguments) and name not in ("int", "float"):
        return UNKNOWN
    if name in ("max", "min", "sum") and not all(map(_is_flat, arguments)):
        return UNKNOWN
    try:
        return operation(*arguments)
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN


def _range(*bounds: int) -> list[int]:
    return list(range(*bounds)[:MAX_ITERATIONS])


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
_READERS: dict[type[ast.expr], Callable[[Evaluator, ast.expr, Scope], object]] = {
    ast.Constant: _constant,  # type: ignore[dict-item]
    ast.Name: _name,  # type: ignore[dict-item]
    ast.Attribute: _attribute,  # type: ignore[dict-item]
    ast.List: _sequence,  # type: ignore[dict-item]
    ast.Tuple: _sequence,  # type: ignore[dict-item]
    ast.BinOp: _binary,  # type: ignore[dict-item]
    ast.UnaryOp: _unary,  # type: ignore[dict-item]
    ast.IfExp: _conditional,  # type: ignore[dict-item]
    ast.BoolOp: _bool_op,  # type: ignore[dict-item]
    ast.Compare: _compare,  # type: ignore[dict-item]
    ast.Subscript: _subscription,  # type: ignore[dict-item]
    ast.ListComp: _comprehension,  # type: ignore[dict-item]
    ast.GeneratorExp: _comprehension,  # type: ignore[dict-item]
    ast.Call: _call,  # type: ignore[dict-item]
}
