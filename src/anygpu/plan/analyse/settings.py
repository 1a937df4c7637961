"""What names stand for: command line, config files, parser defaults and assignments, in that order."""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from anygpu.plan.analyse import conditions
from anygpu.plan.analyse.arithmetic import sane, worked_out
from anygpu.plan.analyse.facts import Assigned, Facts, dotted, normal
from anygpu.plan.analyse.findings import GUESS, LIKELY, SURE

Plain = int | float | str | bool | None

DEEPEST = 12
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
    """What an expression comes to, with the place that decides it."""

    value: Plain
    file: str = ""
    line: int = 0
    confidence: float = SURE
    because: str = "written in the code"


@dataclass(slots=True)
class Settings:
    """Names to values. `of` reads an expression, `named` looks a name up."""

    facts: Facts
    given: dict[str, Value] = field(default_factory=dict)
    configs: dict[str, Value] = field(default_factory=dict)
    options: dict[str, Value] = field(default_factory=dict)
    shorts: dict[str, str] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)  # options without dashes, in their order
    switches: set[str] = field(default_factory=set)  # options that take no value
    silent: set[str] = field(default_factory=set)  # options without a default
    spellings: list[set[str]] = field(default_factory=list)  # the names of one option
    known: dict[int, Value | None] = field(default_factory=dict)  # by syntax node: each is read once
    asked: dict[str, object] = field(default_factory=dict)  # options by name: each is looked up once

    def named(self, *names: str) -> Value | None:
        """The first of these names that has a value."""
        for name in map(normal, names):
            found = self.told(name) or self._assigned(name, None, 0)
            if found is not None and found.value is not None:
                return found
        return None

    def told(self, name: str) -> Value | None:
        """From the command line, a config file or a parser's default."""
        return self.given.get(name) or self.configs.get(name) or self.options.get(name)

    def option(self, name: str, unknown: object) -> object:
        """What an option is: None when it has no default and is not given."""
        name = normal(name)
        if name not in self.asked:
            found, silent = self.told(name), name in self.silent
            self.asked[name] = found.value if found else None if silent else self._handed_on(name, unknown)
        return self.asked[name]

    def forget(self) -> None:
        """What was read so far: other things are told now."""
        self.known.clear()
        self.asked.clear()

    def _handed_on(self, name: str, unknown: object) -> object:
        """def load(dataset_name), called as load(args.dataset): the option under the parameter's name."""
        bound = self.facts.assigned.get(name, ())
        words = {
            normal(b.node.attr) if b.how == "passed" and isinstance(b.node, ast.Attribute) else ""
            for b in bound
        }
        found = self.told(words.pop()) if len(words) == 1 else None
        return unknown if found is None else found.value

    def of(self, node: ast.AST | None, depth: int = 0) -> Value | None:
        """The value of an expression, if it can be known without running it."""
        reader = _READERS.get(type(node)) if node is not None and depth <= DEEPEST else None
        if node is None or reader is None:
            return None
        if id(node) not in self.known:
            self.known[id(node)] = None  # a name that stands for itself is unknown
            self.known[id(node)] = reader(self, node, depth + 1)
        return self.known[id(node)]

    def number(self, node: ast.AST | None) -> Value | None:
        found = self.of(node)
        return _as_number(found)

    def text(self, node: ast.AST | None) -> Value | None:
        found = self.of(node)
        return found if found is not None and isinstance(found.value, str) else None

    def _constant(self, node: ast.Constant, _: int) -> Value | None:
        if not isinstance(node.value, int | float | str | bool | None):
            return None
        return Value(node.value, self._file, node.lineno)

    @property
    def _file(self) -> str:
        return self.facts.sources[0].name if self.facts.sources else ""

    def _name(self, node: ast.Name, depth: int) -> Value | None:
        return self.told(normal(node.id)) or self._assigned(normal(node.id), node.lineno, depth)

    def _attribute(self, node: ast.Attribute, depth: int) -> Value | None:
        path = [part for part in normal(dotted(node, {})).split(".") if part not in ("?", "self")]
        for start in range(len(path)):
            tail = ".".join(path[start:])
            found = self.told(tail) or self._assigned(tail, node.lineno, depth)
            if found is not None:
                return found
        return None

    def _subscript(self, node: ast.Subscript, depth: int) -> Value | None:
        if isinstance(node.value, ast.Dict):
            return self._picked(node.value, node.slice, depth)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(key, str):
            return None
        return self.told(normal(key)) or self._assigned(normal(key), node.lineno, depth)

    def _picked(self, table: ast.Dict, key: ast.expr, depth: int) -> Value | None:
        wanted = self.of(key, depth)
        for name, value in zip(table.keys, table.values, strict=True):
            if wanted is not None and isinstance(name, ast.Constant) and name.value == wanted.value:
                return self.of(value, depth) or Value(dotted(value, {}), wanted.file, wanted.line)
        return None

    def _call(self, node: ast.Call, depth: int) -> Value | None:
        last = dotted(node.func, self.facts.imports).rpartition(".")[2]
        if last in ("get", "getenv", "getattr", "setdefault", "pop"):
            return self._looked_up(node, depth)
        if last == "field":
            default = next((k.value for k in node.keywords if k.arg == "default"), None)
            return self.of(default, depth)
        if last in ("min", "max") and node.args:
            return self._bounded(last, [_as_number(self.of(argument, depth)) for argument in node.args])
        if last in ("join", "joinpath") and len(node.args) > 1:
            return self._joined_path(node, depth)
        if last in _FIRST_ARGUMENT and node.args:
            return _converted(last, self.of(node.args[0], depth))
        if last in ("Option", "Argument", "Arg") and (node.args or node.keywords):
            default = next((k.value for k in node.keywords if k.arg == "default"), None)
            return self.of(default or (node.args[0] if node.args else None), depth)
        return None

    def _bounded(self, how: str, found: list[Value | None]) -> Value | None:
        """min(64, len(data)) is probably the one that is known; of two that are known, the one it is."""
        known = [each for each in found if each is not None]
        if len(known) == len(found) > 1:
            return (min if how == "min" else max)(known, key=lambda each: float(each.value or 0))
        return replace(known[0], confidence=min(known[0].confidence, LIKELY)) if len(known) == 1 else None

    def _joined_path(self, node: ast.Call, depth: int) -> Value | None:
        parts = [self.of(part, depth) for part in node.args]
        known = [part for part in parts if part is not None]
        text = "/".join("{}" if part is None else str(part.value) for part in parts)
        return _joint(text, known[0], known[0]) if known else None

    def _looked_up(self, node: ast.Call, depth: int) -> Value | None:
        key = next(
            (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)), None
        )
        found = self.told(normal(key)) if key else None
        if found is None and len(node.args) > 1:
            found = self.of(node.args[-1], depth)
        return found

    def _binary(self, node: ast.BinOp, depth: int) -> Value | None:
        left, right = self.of(node.left, depth), self.of(node.right, depth)
        if left is None or right is None:
            return self._per_device(node, left, right)
        if isinstance(node.op, ast.Add) and isinstance(left.value, str) and isinstance(right.value, str):
            return _joint(left.value + right.value, left, right)
        numbers = [v.value for v in (left, right) if isinstance(v.value, int | float)]
        if len(numbers) != 2:
            return self._path(node, left, right)
        found = worked_out(type(node.op), *numbers)
        return None if found is None else _joint(found, left, right)

    def _per_device(self, node: ast.BinOp, left: Value | None, right: Value | None) -> Value | None:
        """`8 * strategy.num_replicas_in_sync` and `64 // world_size`: what one device has, or would have alone."""
        known, other = (left, node.right) if left is not None else (right, node.left)
        shared = isinstance(node.op, ast.Mult) or (isinstance(node.op, ast.FloorDiv) and known is left)
        return known if shared and _DEVICES.search(ast.unparse(other)[-60:]) else None

    def _path(self, node: ast.BinOp, left: Value, right: Value) -> Value | None:
        if isinstance(node.op, ast.Div) and isinstance(left.value, str) and isinstance(right.value, str):
            return _joint(f"{left.value}/{right.value}", left, right)
        return None

    def _unary(self, node: ast.UnaryOp, depth: int) -> Value | None:
        found = self.of(node.operand, depth)
        if found is None or not isinstance(found.value, int | float):
            return None
        if isinstance(node.op, ast.Not):
            return Value(not found.value, found.file, found.line, found.confidence, found.because)
        sign = -1 if isinstance(node.op, ast.USub) else 1
        return Value(sign * found.value, found.file, found.line, found.confidence, found.because)

    def _choice(self, node: ast.IfExp, depth: int) -> Value | None:
        """The branch an option decides on, else the one taken on a machine with a GPU, which is where it is to run."""
        holds = conditions.holds(self, node.test)
        if holds is not None:
            return self.of(node.body if holds else node.orelse, depth)
        body, other = self.of(node.body, depth), self.of(node.orelse, depth)
        chosen = (other if isinstance(node.test, ast.UnaryOp) else body) or other
        if chosen is None or (body is not None and other is not None and body.value == other.value):
            return chosen
        trust = LIKELY if conditions.of_the_machine(node.test) else GUESS
        return replace(chosen, confidence=min(chosen.confidence, trust))

    def _or(self, node: ast.BoolOp, depth: int) -> Value | None:
        known = [value for value in (self.of(part, depth) for part in node.values) if value is not None]
        truthy = [value for value in known if value.value]
        return next(iter([*truthy, *known]), None)

    def _walrus(self, node: ast.NamedExpr, depth: int) -> Value | None:
        return self.of(node.value, depth)

    def _joined(self, node: ast.JoinedStr, depth: int) -> Value | None:
        text = "".join(self._piece(part, depth) for part in node.values)
        return Value(text, self._file, node.lineno, LIKELY) if sane(text) else None

    def _piece(self, part: ast.expr, depth: int) -> str:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        found = self.of(inner, depth)
        return "{}" if found is None else str(found.value)

    def _assigned(self, name: str, line: int | None, depth: int) -> Value | None:
        """The nearest assignment before the use, else the first after it."""
        if depth > DEEPEST:
            return None
        bound = [b for b in self.facts.assigned.get(name, ()) if self._may_run(b, name)]
        asked = next((found for b in bound if (found := self._asked_for(b))), None)
        if asked is not None:
            return asked
        for candidate in self._in_turn(bound, line, depth):
            found = self.of(candidate.node, depth + 1)
            if found is not None and found.value is not None:
                trust = {"default": LIKELY, "key": LIKELY, "field": LIKELY}.get(candidate.how, SURE)
                file = candidate.around.file
                return Value(found.value, file, found.line, min(found.confidence, trust), found.because)
            if found is None and self._overrides(candidate) and not candidate.around.branches:
                return None  # cfg.model.vocab_size = len(vocabulary): only the running code knows
        return None

    def _in_turn(self, bound: list[Assigned], line: int | None, depth: int) -> list[Assigned]:
        """What may decide a name, first what decides most."""
        kept = [b for b in bound if b.how not in ("default", "passed")]
        before = [b for b in kept if line is not None and b.line <= line]
        before += [b for b in kept if self._overrides(b)]
        sure = [b for b in bound if b.how != "passed"] if self._disagree(bound, depth) else bound
        return [*reversed(before[-6:]), *_by_trust(sure)[:8]]

    def _overrides(self, bound: Assigned) -> bool:
        """The script itself sets `cfg.model.width`: whatever a module beside it has as a default."""
        return bound.how == "path" and bound.around.file == self._file

    def _may_run(self, bound: Assigned, name: str) -> bool:
        return not _names_itself(bound, name) and not conditions.off(self, bound.around.branches)

    def _asked_for(self, bound: Assigned) -> Value | None:
        """`config.DATA.BATCH_SIZE = args.batch_size`: what is given on the command line is what it becomes."""
        if bound.how != "path" or not isinstance(bound.node, ast.Attribute):
            return None
        return self.given.get(normal(bound.node.attr))

    def _disagree(self, bound: list[Assigned], depth: int) -> bool:
        """A parameter that is given one thing here and another there, or a word that is no path, stands for nothing."""
        passed = [self.of(b.node, depth + 1) for b in bound if b.how == "passed"]
        values = {None if found is None else found.value for found in passed}
        return len(values) > 1 or not all(_says_something(value) for value in values)


_READERS: dict[type[ast.AST], Callable[[Settings, ast.AST, int], Value | None]] = {
    ast.Constant: Settings._constant,  # type: ignore[dict-item]
    ast.Name: Settings._name,  # type: ignore[dict-item]
    ast.Attribute: Settings._attribute,  # type: ignore[dict-item]
    ast.Subscript: Settings._subscript,  # type: ignore[dict-item]
    ast.Call: Settings._call,  # type: ignore[dict-item]
    ast.BinOp: Settings._binary,  # type: ignore[dict-item]
    ast.UnaryOp: Settings._unary,  # type: ignore[dict-item]
    ast.IfExp: Settings._choice,  # type: ignore[dict-item]
    ast.BoolOp: Settings._or,  # type: ignore[dict-item]
    ast.JoinedStr: Settings._joined,  # type: ignore[dict-item]
    ast.NamedExpr: Settings._walrus,  # type: ignore[dict-item]
}


def _names_itself(bound: Assigned, name: str) -> bool:
    """`args.epochs = args.epochs`, or a keyword that only passes the name on."""
    return isinstance(bound.node, ast.Name) and normal(bound.node.id) == name


def _says_something(value: Plain) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and "/" in value)


def _by_trust(bound: list[Assigned]) -> list[Assigned]:
    order = {"name": 0, "attribute": 1, "path": 1, "field": 2, "key": 3, "passed": 4, "default": 5}
    return sorted(bound, key=lambda b: (order.get(b.how, 6), b.line))


def _joint(value: Plain, left: Value, right: Value) -> Value | None:
    """What comes of two, as sure as the less sure one; texts that double and double are let go."""
    if not sane(value):
        return None
    nearer = left if left.confidence <= right.confidence else right
    return Value(value, nearer.file, nearer.line, nearer.confidence, nearer.because)


def _converted(how: str, found: Value | None) -> Value | None:
    if found is None:
        return None
    if how in ("int", "float", "round"):
        number = _as_number(found)
        if number is None or not isinstance(number.value, int | float):
            return None
        value: Plain = float(number.value) if how == "float" else int(number.value)
        return Value(value, found.file, found.line, found.confidence, found.because)
    return found


def _as_number(found: Value | None) -> Value | None:
    if found is None or isinstance(found.value, bool):
        return None
    if isinstance(found.value, int | float):
        return found
    value = plain(found.value) if isinstance(found.value, str) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Value(value, found.file, found.line, found.confidence, found.because)
    return None


def plain(text: str) -> Plain:
    """A word of a command line as Python would read it."""
    word = text.strip().strip("\"'")
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(word.replace("_", "") if kind is int else word)
        except ValueError:
            continue
        if sane(number):
            return number
    return None if word.lower() in ("none", "null") else word
