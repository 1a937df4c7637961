"""Find the values of names and expressions in the user's code.

The first of these sources that has a value is used: command line, configuration files, defaults of options,
assignments.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from anygpu.plan.analyse.code import conditions
from anygpu.plan.analyse.code.conditions import apply_operator, is_plausible
from anygpu.plan.analyse.code.syntax import NameBinding, SyntaxFacts, dotted_name, normalise_name
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE

PlainValue = int | float | str | bool | None

MAX_DEPTH = 12
_FIRST_ARGUMENT = (
    "int",
    "float",
    "str",
    "Path",
    "bool",
    "round",
    "abs",
    "eval",
    "expanduser",
    "abspath",
)
_DEVICES = re.compile(
    r"(?i)(num_replicas\w*|world_size|device_count|n_?gpus?|num_(gpu|device|processe)s)(\(\))?$"
)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of an expression, with the file and line that determine it."""

    value: PlainValue
    file: str = ""
    line: int = 0
    confidence: float = SURE
    because: str = "written in the code"


@dataclass(slots=True)
class ScriptSettings:
    """The settings of a script. `evaluate` returns the value of an expression, `find` the value of a name."""

    facts: SyntaxFacts
    command_line: dict[str, Value] = field(default_factory=dict)
    configs: dict[str, Value] = field(default_factory=dict)
    option_defaults: dict[str, Value] = field(default_factory=dict)
    short_options: dict[str, str] = field(default_factory=dict)
    positionals: list[str] = field(default_factory=list)  # positional options, in order
    flags: set[str] = field(default_factory=set)  # options that take no value
    without_default: set[str] = field(default_factory=set)  # options without a default
    option_names: list[set[str]] = field(default_factory=list)  # the names of one option
    evaluated: dict[int, Value | None] = field(default_factory=dict)  # cache, by id of the syntax node
    option_values: dict[str, object] = field(default_factory=dict)  # cache, by option name

    def find(self, *names: str) -> Value | None:
        """Return the value of the first of `names` that has a value; None if none of them has one."""
        for name in map(normalise_name, names):
            result = self.configured(name) or self._from_bindings(name, None, 0)
            if result is not None and result.value is not None:
                return result
        return None

    def configured(self, name: str) -> Value | None:
        """Return the value from the command line, a configuration file or an option's default; else None."""
        return self.command_line.get(name) or self.configs.get(name) or self.option_defaults.get(name)

    def option_value(self, name: str, unknown: object) -> object:
        """Return the value of an option, or `unknown` if there is no such option.

        The result None means that the option is not given and has no default.
        """
        name = normalise_name(name)
        if name not in self.option_values:
            result, silent = self.configured(name), name in self.without_default
            self.option_values[name] = (
                result.value if result else None if silent else self._passed_option(name, unknown)
            )
        return self.option_values[name]

    def clear_caches(self) -> None:
        """Drop the cached values. Call this after the script's options or configuration values have changed."""
        self.evaluated.clear()
        self.option_values.clear()

    def _passed_option(self, name: str, unknown: object) -> object:
        """Return the value of the option that is passed to the parameter `name`, or `unknown`.

        If `def load(dataset_name)` is called as `load(args.dataset)`, the parameter `dataset_name` has the
        value of the option `dataset`.
        """
        bound = self.facts.bindings.get(name, ())
        words = {
            normalise_name(b.node.attr) if b.how == "passed" and isinstance(b.node, ast.Attribute) else ""
            for b in bound
        }
        result = self.configured(words.pop()) if len(words) == 1 else None
        return unknown if result is None else result.value

    def evaluate(self, node: ast.AST | None, depth: int = 0) -> Value | None:
        """Return the value of an expression; None if it cannot be known without running the code."""
        reader = _READERS.get(type(node)) if node is not None and depth <= MAX_DEPTH else None
        if node is None or reader is None:
            return None
        if id(node) not in self.evaluated:
            self.evaluated[id(node)] = None  # a name defined by itself is unknown
            self.evaluated[id(node)] = reader(self, node, depth + 1)
        return self.evaluated[id(node)]

    def evaluate_number(self, node: ast.AST | None) -> Value | None:
        result = self.evaluate(node)
        return _as_number(result)

    def evaluate_text(self, node: ast.AST | None) -> Value | None:
        result = self.evaluate(node)
        return result if result is not None and isinstance(result.value, str) else None

    def _constant(self, node: ast.Constant, _: int) -> Value | None:
        if not isinstance(node.value, int | float | str | bool | None):
            return None
        return Value(node.value, self._file, node.lineno)

    @property
    def _file(self) -> str:
        return self.facts.sources[0].name if self.facts.sources else ""

    def _name(self, node: ast.Name, depth: int) -> Value | None:
        return self.configured(normalise_name(node.id)) or self._from_bindings(
            normalise_name(node.id), node.lineno, depth
        )

    def _attribute(self, node: ast.Attribute, depth: int) -> Value | None:
        path = [
            part for part in normalise_name(dotted_name(node, {})).split(".") if part not in ("?", "self")
        ]
        for start in range(len(path)):
            tail = ".".join(path[start:])
            result = self.configured(tail) or self._from_bindings(tail, node.lineno, depth)
            if result is not None:
                return result
        return None

    def _subscription(self, node: ast.Subscript, depth: int) -> Value | None:
        if isinstance(node.value, ast.Dict):
            return self._table_entry(node.value, node.slice, depth)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(key, str):
            return None
        return self.configured(normalise_name(key)) or self._from_bindings(
            normalise_name(key), node.lineno, depth
        )

    def _table_entry(self, table: ast.Dict, key: ast.expr, depth: int) -> Value | None:
        wanted = self.evaluate(key, depth)
        for name, value in zip(table.keys, table.values, strict=True):
            if wanted is not None and isinstance(name, ast.Constant) and name.value == wanted.value:
                return self.evaluate(value, depth) or Value(dotted_name(value, {}), wanted.file, wanted.line)
        return None

    def _call(self, node: ast.Call, depth: int) -> Value | None:
        last = dotted_name(node.func, self.facts.imports).rpartition(".")[2]
        if last in ("get", "getenv", "getattr", "setdefault", "pop"):
            return self._lookup_call(node, depth)
        if last == "field":
            default = next((k.value for k in node.keywords if k.arg == "default"), None)
            return self.evaluate(default, depth)
        if last in ("min", "max") and node.args:
            return self._min_or_max(
                last, [_as_number(self.evaluate(argument, depth)) for argument in node.args]
            )
        if last in ("join", "joinpath") and len(node.args) > 1:
            return self._joined_path(node, depth)
        if last in _FIRST_ARGUMENT and node.args:
            return _convert(last, self.evaluate(node.args[0], depth))
        if last in ("Option", "Argument", "Arg") and (node.args or node.keywords):
            default = next((k.value for k in node.keywords if k.arg == "default"), None)
            return self.evaluate(default or (node.args[0] if node.args else None), depth)
        return None

    def _min_or_max(self, how: str, result: list[Value | None]) -> Value | None:
        """Evaluate `min` or `max`.

        If only one argument is known, as in `min(64, len(data))`, return it with lower confidence.
        """
        resolved = [each for each in result if each is not None]
        if len(resolved) == len(result) > 1:
            return (min if how == "min" else max)(resolved, key=lambda each: float(each.value or 0))
        return (
            replace(resolved[0], confidence=min(resolved[0].confidence, LIKELY))
            if len(resolved) == 1
            else None
        )

    def _joined_path(self, node: ast.Call, depth: int) -> Value | None:
        parts = [self.evaluate(part, depth) for part in node.args]
        resolved = [part for part in parts if part is not None]
        text = "/".join("{}" if part is None else str(part.value) for part in parts)
        return _combine(text, resolved[0], resolved[0]) if resolved else None

    def _lookup_call(self, node: ast.Call, depth: int) -> Value | None:
        key = next(
            (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)), None
        )
        result = self.configured(normalise_name(key)) if key else None
        if result is None and len(node.args) > 1:
            result = self.evaluate(node.args[-1], depth)
        return result

    def _binary(self, node: ast.BinOp, depth: int) -> Value | None:
        left, right = self.evaluate(node.left, depth), self.evaluate(node.right, depth)
        if left is None or right is None:
            return self._per_device(node, left, right)
        if isinstance(node.op, ast.Add) and isinstance(left.value, str) and isinstance(right.value, str):
            return _combine(left.value + right.value, left, right)
        numbers = [v.value for v in (left, right) if isinstance(v.value, int | float)]
        if len(numbers) != 2:
            return self._path_division(node, left, right)
        result = apply_operator(type(node.op), *numbers)
        return None if result is None else _combine(result, left, right)

    def _per_device(self, node: ast.BinOp, left: Value | None, right: Value | None) -> Value | None:
        """Return the known operand of a product or quotient with the number of devices; else None.

        For example, return 8 for `8 * strategy.num_replicas_in_sync` and 64 for `64 // world_size`.
        """
        resolved, other = (left, node.right) if left is not None else (right, node.left)
        shared = isinstance(node.op, ast.Mult) or (isinstance(node.op, ast.FloorDiv) and resolved is left)
        return resolved if shared and _DEVICES.search(ast.unparse(other)[-60:]) else None

    def _path_division(self, node: ast.BinOp, left: Value, right: Value) -> Value | None:
        if isinstance(node.op, ast.Div) and isinstance(left.value, str) and isinstance(right.value, str):
            return _combine(f"{left.value}/{right.value}", left, right)
        return None

    def _unary(self, node: ast.UnaryOp, depth: int) -> Value | None:
        result = self.evaluate(node.operand, depth)
        if result is None or not isinstance(result.value, int | float):
            return None
        if isinstance(node.op, ast.Not):
            return Value(not result.value, result.file, result.line, result.confidence, result.because)
        sign = -1 if isinstance(node.op, ast.USub) else 1
        return Value(sign * result.value, result.file, result.line, result.confidence, result.because)

    def _conditional(self, node: ast.IfExp, depth: int) -> Value | None:
        """Evaluate `a if test else b`.

        If `test` is unknown, it is assumed to ask for a GPU, and the machine to have one: the result is `a`,
        or `b` for `a if not test else b`.
        """
        holds = conditions.evaluate_condition(self, node.test)
        if holds is not None:
            return self.evaluate(node.body if holds else node.orelse, depth)
        body, other = self.evaluate(node.body, depth), self.evaluate(node.orelse, depth)
        chosen = (other if isinstance(node.test, ast.UnaryOp) else body) or other
        if chosen is None or (body is not None and other is not None and body.value == other.value):
            return chosen
        trust = LIKELY if conditions.depends_on_machine(node.test) else GUESS
        return replace(chosen, confidence=min(chosen.confidence, trust))

    def _bool_op(self, node: ast.BoolOp, depth: int) -> Value | None:
        resolved = [
            value for value in (self.evaluate(part, depth) for part in node.values) if value is not None
        ]
        truthy = [value for value in resolved if value.value]
        return next(iter([*truthy, *resolved]), None)

    def _walrus(self, node: ast.NamedExpr, depth: int) -> Value | None:
        return self.evaluate(node.value, depth)

    def _f_string(self, node: ast.JoinedStr, depth: int) -> Value | None:
        text = "".join(self._f_string_part(part, depth) for part in node.values)
        return Value(text, self._file, node.lineno, LIKELY) if is_plausible(text) else None

    def _f_string_part(self, part: ast.expr, depth: int) -> str:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        result = self.evaluate(inner, depth)
        return "{}" if result is None else str(result.value)

    def _from_bindings(self, name: str, line: int | None, depth: int) -> Value | None:
        """Return the value that assignments give a name. The last assignment before `line` has priority."""
        if depth > MAX_DEPTH:
            return None
        bound = [b for b in self.facts.bindings.get(name, ()) if self._may_run(b, name)]
        requested = next((result for b in bound if (result := self._from_command_line(b))), None)
        if requested is not None:
            return requested
        for candidate in self._by_priority(bound, line, depth):
            result = self.evaluate(candidate.node, depth + 1)
            if result is not None and result.value is not None:
                trust = {"default": LIKELY, "key": LIKELY, "field": LIKELY}.get(candidate.how, SURE)
                file = candidate.context.file
                return Value(result.value, file, result.line, min(result.confidence, trust), result.because)
            if result is None and self._overrides(candidate) and not candidate.context.branches:
                return None  # cfg.model.vocab_size = len(vocabulary): only the running code knows
        return None

    def _by_priority(self, bound: list[NameBinding], line: int | None, depth: int) -> list[NameBinding]:
        """Return the assignments that may give a name its value, the most likely one first."""
        kept = [b for b in bound if b.how not in ("default", "passed")]
        before = [b for b in kept if line is not None and b.line <= line]
        before += [b for b in kept if self._overrides(b)]
        sure = [b for b in bound if b.how != "passed"] if self._disagree(bound, depth) else bound
        return [*reversed(before[-6:]), *_by_trust(sure)[:8]]

    def _overrides(self, bound: NameBinding) -> bool:
        """Return whether the script itself assigns to a path such as `cfg.model.width`.

        Such an assignment overrides the defaults in other modules.
        """
        return bound.how == "path" and bound.context.file == self._file

    def _may_run(self, bound: NameBinding, name: str) -> bool:
        return not _is_self_reference(bound, name) and not conditions.is_disabled(
            self, bound.context.branches
        )

    def _from_command_line(self, bound: NameBinding) -> Value | None:
        """Return the command-line value that an assignment copies; None if it copies none.

        Example of such an assignment: `config.DATA.BATCH_SIZE = args.batch_size`.
        """
        if bound.how != "path" or not isinstance(bound.node, ast.Attribute):
            return None
        return self.command_line.get(normalise_name(bound.node.attr))

    def _disagree(self, bound: list[NameBinding], depth: int) -> bool:
        """Return whether calls pass different values for a parameter, or one that is neither a number nor a path."""
        passed = [self.evaluate(b.node, depth + 1) for b in bound if b.how == "passed"]
        values = {None if result is None else result.value for result in passed}
        return len(values) > 1 or not all(_is_specific(value) for value in values)


_READERS: dict[type[ast.AST], Callable[[ScriptSettings, ast.AST, int], Value | None]] = {
    ast.Constant: ScriptSettings._constant,  # type: ignore[dict-item]
    ast.Name: ScriptSettings._name,  # type: ignore[dict-item]
    ast.Attribute: ScriptSettings._attribute,  # type: ignore[dict-item]
    ast.Subscript: ScriptSettings._subscription,  # type: ignore[dict-item]
    ast.Call: ScriptSettings._call,  # type: ignore[dict-item]
    ast.BinOp: ScriptSettings._binary,  # type: ignore[dict-item]
    ast.UnaryOp: ScriptSettings._unary,  # type: ignore[dict-item]
    ast.IfExp: ScriptSettings._conditional,  # type: ignore[dict-item]
    ast.BoolOp: ScriptSettings._bool_op,  # type: ignore[dict-item]
    ast.JoinedStr: ScriptSettings._f_string,  # type: ignore[dict-item]
    ast.NamedExpr: ScriptSettings._walrus,  # type: ignore[dict-item]
}


def _is_self_reference(bound: NameBinding, name: str) -> bool:
    """Return whether a name is only set to itself, such as by `epochs=epochs` in a call."""
    return isinstance(bound.node, ast.Name) and normalise_name(bound.node.id) == name


def _is_specific(value: PlainValue) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and "/" in value)


def _by_trust(bound: list[NameBinding]) -> list[NameBinding]:
    order = {"name": 0, "attribute": 1, "path": 1, "field": 2, "key": 3, "passed": 4, "default": 5}
    return sorted(bound, key=lambda b: (order.get(b.how, 6), b.line))


def _combine(value: PlainValue, left: Value, right: Value) -> Value | None:
    """Return a value computed from two others, with the lower confidence; None if it is too large."""
    if not is_plausible(value):
        return None
    nearer = left if left.confidence <= right.confidence else right
    return Value(value, nearer.file, nearer.line, nearer.confidence, nearer.because)


def _convert(how: str, result: Value | None) -> Value | None:
    if result is None:
        return None
    if how in ("int", "float", "round"):
        number = _as_number(result)
        if number is None or not isinstance(number.value, int | float):
            return None
        value: PlainValue = float(number.value) if how == "float" else int(number.value)
        return Value(value, result.file, result.line, result.confidence, result.because)
    return result


def _as_number(result: Value | None) -> Value | None:
    if result is None or isinstance(result.value, bool):
        return None
    if isinstance(result.value, int | float):
        return result
    value = parse_word(result.value) if isinstance(result.value, str) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Value(value, result.file, result.line, result.confidence, result.because)
    return None


def parse_word(text: str) -> PlainValue:
    """Parse a command-line word as a bool, an int or a float; otherwise return the text."""
    word = text.strip().strip("\"'")
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(word.replace("_", "") if kind is int else word)
        except ValueError:
            continue
        if is_plausible(number):
            return number
    return None if word.lower() in ("none", "null") else word
