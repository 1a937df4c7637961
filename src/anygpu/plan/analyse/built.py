"""A network as its constructors build it: blocks of blocks, helpers and loops, each with the sizes it is given.

Nothing is run: a constructor's statements are followed with the numbers that can be known, up to a bound.
"""

import ast
from dataclasses import dataclass

from anygpu.plan import models
from anygpu.plan.analyse import expressions
from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.expressions import UNKNOWN, Module, Named, Scope, Tensor
from anygpu.plan.analyse.facts import Call, dotted, normal
from anygpu.plan.analyse.reached import outside
from anygpu.plan.analyse.sizes import LARGEST, NORMS, SIZES, Arguments, whole

MOST_STEPS = 20_000
DEEPEST = 30
UNSIZED = 0.34  # of the layers may have a size that only the running code knows
_REPEATS = ("TransformerEncoder", "TransformerDecoder", "clones", "get_clones", "_get_clones")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class TooMuch(Exception):
    """The constructors go on longer than anybody waits."""


@dataclass(frozen=True, slots=True)
class Built:
    """Weights of the networks that the code makes, and where the first of them is made."""

    weights: int
    file: str
    line: int


def built(code: Code, own: set[str], whole_name: str) -> Built | None:
    """Every network of the code's own that is made outside the others, each kind once."""
    roots: dict[str, Call | None] = {}
    aside = {id(call) for call in outside(code.facts)}
    for call in (call for call in code.facts.calls if id(call) not in aside):
        if call.last in own and call.around.owner not in own:
            roots.setdefault(call.last, call)
    builder = Builder(code, own)
    builder.whole_name = whole_name
    try:
        for name, made in (roots or _trained(code, own)).items():
            builder.make(name, made.node if made is not None else None, {}, outermost=True)
    except (TooMuch, RecursionError):
        return None
    return builder.result()


def _trained(code: Code, own: set[str]) -> dict[str, Call | None]:
    """LightningCLI(Net) makes it itself."""
    steps = {name for name in own if "training_step" in _methods(code, name)}
    return dict.fromkeys(sorted(steps)[:1])


def _methods(code: Code, name: str) -> dict[str, Function]:
    body = code.facts.classes[name][0].body if name in code.facts.classes else []
    found = (part for part in reversed(body) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef))
    return {part.name: part for part in found}


class Builder:
    """Follows constructors and adds up the layers they make."""

    def __init__(self, code: Code, own: set[str]) -> None:
        self.code = code
        self.own = own
        self.weights = self.sized = self.unsized = 0
        self.missing = False  # a published network of which not even the name is known
        self.whole_name = ""
        self._steps = self._depth = 0
        self._at: tuple[str, int] = ("", 0)
        self._attributes: dict[str, dict[str, ast.expr]] = {}  # of classes, as they are asked for
        self._known_methods: dict[str, dict[str, Function]] = {}

    def result(self) -> Built | None:
        trusted = self.unsized <= UNSIZED * (self.sized + self.unsized)
        if not 0 < self.weights <= LARGEST or not trusted or self.missing:
            return None
        return Built(self.weights, *self._at)

    def step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooMuch

    def make(self, name: str, node: ast.Call | None, scope: Scope, *, outermost: bool = False) -> object:
        """An instance of one of the code's own networks."""
        init = self.methods(name).get("__init__")
        before = self.weights
        if init is not None and self._depth < DEEPEST:
            inside: Scope = {"self": {"": name}}
            inside.update(self._given(init, node, scope, outermost=outermost, skip=1))
            self._follow(init, inside)
        return Module(self.weights - before)

    def methods(self, kind: str) -> dict[str, Function]:
        """Of a class of the code; none of what is no class of it."""
        if kind not in self._known_methods:
            self._known_methods[kind] = _methods(self.code, kind)
        return self._known_methods[kind]

    def _follow(self, function: Function, scope: Scope) -> object:
        self._depth += 1
        found = expressions.run(self, function.body, scope)
        self._depth -= 1
        return UNKNOWN if found is expressions.GOES_ON else found

    def _given(
        self, function: Function, node: ast.Call | None, scope: Scope, *, outermost: bool, skip: int
    ) -> Scope:
        names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
        found: Scope = dict(self._defaults(function, outermost))
        if node is not None:
            places = [a for a in node.args if not isinstance(a, ast.Starred)]
            found.update(zip(names[skip:], (self.value(a, scope) for a in places), strict=False))
            found.update({k.arg: self.value(k.value, scope) for k in node.keywords if k.arg})
        return {name: found.get(name, UNKNOWN) for name in [*names[skip:], *found]}

    def _defaults(self, function: Function, outermost: bool) -> list[tuple[str, object]]:
        arguments = function.args
        plain = [*arguments.posonlyargs, *arguments.args]
        pairs = list(zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True))
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
        found = [(argument.arg, self.value(default, {})) for argument, default in pairs]
        if not outermost:
            return found
        told = [(name, self.code.settings.told(normal(name))) for name, _ in found]
        return [*found, *((name, value.value) for name, value in told if value is not None)]

    def value(self, node: ast.expr, scope: Scope) -> object:
        self.step()
        return expressions.value(self, node, scope)

    def call(self, node: ast.Call, scope: Scope) -> object:
        """What a call makes: a network, a layer, what a helper returns, or what its arguments make."""
        name = self._name(node.func, scope)
        if isinstance(node.func, ast.Call) and ast.unparse(node.func).startswith(
            "getattr(torchvision.models"
        ):
            return self._published(node.func, scope)
        if name in self.own:
            return self.make(name, node, scope)
        if name in SIZES or name in NORMS:
            return self._layer(name, node, scope)
        helper = self._helper(node.func, scope)
        if helper is not None and self._depth < DEEPEST:
            function, self_of = helper
            inside = self._given(function, node, scope, outermost=False, skip=len(self_of))
            return self._follow(function, {**self_of, **inside})
        return self._others(name, node, scope)

    def _published(self, chosen: ast.Call, scope: Scope) -> object:
        """getattr(torchvision.models, name)(...) in a part of the network; the whole's own are counted by name."""
        me = scope.get("self")
        if isinstance(me, dict) and me.get("") == self.whole_name:
            return UNKNOWN
        name = self.value(chosen.args[1], scope) if len(chosen.args) > 1 else UNKNOWN
        shape = models.lookup(name) if isinstance(name, str) else None
        self.weights += shape.parameters if shape is not None else 0
        self.missing |= shape is None
        return Module(shape.parameters if shape is not None else 0)

    def _name(self, func: ast.expr, scope: Scope) -> str:
        held = expressions.held(func, scope)
        return held.name if isinstance(held, Named) else dotted(func, {}).rpartition(".")[2]

    def _helper(self, func: ast.expr, scope: Scope) -> tuple[Function, Scope] | None:
        """A function of the code, or a method of the network that is being made."""
        if isinstance(func, ast.Name) and func.id in self.code.facts.functions:
            return self.code.facts.functions[func.id][0], {}
        me = scope.get("self")
        if isinstance(func, ast.Attribute) and dotted(func.value, {}) == "self" and isinstance(me, dict):
            found = self.methods(str(me[""])).get(func.attr)
            return (found, {"self": me}) if found is not None else None
        return None

    def _layer(self, name: str, node: ast.Call, scope: Scope) -> object:
        size = (SIZES.get(name) or NORMS[name])(self._arguments(node, scope))
        self.weights += size
        self.sized += bool(size) and name in SIZES
        self.unsized += not size and name in SIZES
        if size and not self._at[1]:
            self._at = (self._file(scope), node.lineno)
        return Module(size)

    def _file(self, scope: Scope) -> str:
        me = scope.get("self")
        name = str(me[""]) if isinstance(me, dict) else ""
        return self.code.facts.classes[name][1].file if name else self.code.facts.sources[0].name

    def _arguments(self, node: ast.Call, scope: Scope) -> Arguments:
        def get(place: int | None, *names: str) -> object:
            for keyword in node.keywords:
                if keyword.arg in names:
                    return self.value(keyword.value, scope)
            if place is not None and len(node.args) > place and not isinstance(node.args[place], ast.Starred):
                return self.value(node.args[place], scope)
            return None

        return get

    def _others(self, name: str, node: ast.Call, scope: Scope) -> object:
        before = self.weights
        if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
            self.value(node.func.value, scope)
        inside = [self.value(a.value if isinstance(a, ast.Starred) else a, scope) for a in node.args]
        inside += [self.value(keyword.value, scope) for keyword in node.keywords]
        if name in _REPEATS and len(inside) > 1 and isinstance(inside[0], Module):
            self.weights += inside[0].weights * max(whole(inside[1]) - 1, 0)
        elif name == "deepcopy" and inside and isinstance(inside[0], Module):
            self.weights += inside[0].weights
        elif (found := expressions.builtin(name, inside, node, scope)) is not UNKNOWN:
            return found
        elif inside and isinstance(inside[0], Tensor):
            return inside[0]  # relu(x), dropout(x): what flows keeps its shape
        return Module(self.weights - before) if self.weights > before else UNKNOWN

    def again(self, times: int, weights: int) -> None:
        """What was made once stands there several times."""
        self.weights += weights * max(times - 1, 0)

    def setting(self, node: ast.expr) -> object:
        """A name that is not the constructor's own: an option, a configuration, a constant."""
        found = self.code.settings.of(node)
        if found is not None:
            return found.value
        key = (
            node.slice.value
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
            else ""
        )
        name = normal(str(key) or dotted(node, {}).rpartition(".")[2])
        lists = (b.node for b in self.code.facts.assigned.get(name, ()))
        table = next((n for n in lists if isinstance(n, ast.List | ast.Tuple)), None)
        return self.value(table, {}) if table is not None else UNKNOWN

    def of_class(self, name: str, attribute: str) -> object:
        """Block.expansion."""
        if name not in self._attributes:
            body = self.code.facts.classes[name][0].body if name in self.code.facts.classes else ()
            plain = [part for part in reversed(body) if isinstance(part, ast.Assign)]
            self._attributes[name] = {dotted(part.targets[0], {}): part.value for part in plain}
        found = self._attributes[name].get(attribute)
        return UNKNOWN if found is None else self.value(found, {})

    def is_kind(self, name: str) -> bool:
        return name in self.own or name in SIZES or name in NORMS
