"""Count the weights of a PyTorch network by evaluating its constructors without running them.

The evaluation includes nested blocks, helper functions and loops, as far as values are known and up to a
number of steps.
"""

import ast
from dataclasses import dataclass

from anygpu.plan.analyse.code.syntax import CallSite, dotted_name, normalise_name
from anygpu.plan.analyse.code.training_code import Code, unreachable_calls
from anygpu.plan.analyse.network import evaluate
from anygpu.plan.analyse.network.evaluate import UNKNOWN, BuiltModule, NamedLayer, Scope, TensorShape
from anygpu.plan.analyse.network.layer_sizes import (
    LAYER_SIZES,
    MAX_WEIGHTS,
    NORM_SIZES,
    LayerArguments,
    as_int,
)
from anygpu.plan.hardware import models

MAX_STEPS = 20_000
MAX_DEPTH = 30
MAX_UNSIZED_SHARE = 0.34  # maximum share of layers with unknown size
_REPEATS = ("TransformerEncoder", "TransformerDecoder", "clones", "get_clones", "_get_clones")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class EvaluationLimit(Exception):
    """Raised when the evaluation of the constructors takes too many steps."""


@dataclass(frozen=True, slots=True)
class WeightCount:
    """The number of weights of the networks in the code, and the location of the first network."""

    weights: int
    file: str
    line: int


def count_torch_weights(code: Code, own: set[str], whole_name: str) -> WeightCount | None:
    """Count the weights of all networks that the code creates, except inside other networks.

    Each class is counted once. Return None if the weights cannot be counted.
    """
    roots: dict[str, CallSite | None] = {}
    unreachable = {id(call) for call in unreachable_calls(code.facts)}
    for call in (call for call in code.facts.calls if id(call) not in unreachable):
        if call.short_name in own and call.context.owner not in own:
            roots.setdefault(call.short_name, call)
    builder = NetworkBuilder(code, own)
    builder.whole_name = whole_name
    try:
        for name, made in (roots or _trained_network(code, own)).items():
            builder.build(name, made.node if made is not None else None, {}, outermost=True)
    except (EvaluationLimit, RecursionError):
        return None
    return builder.result()


def _trained_network(code: Code, own: set[str]) -> dict[str, CallSite | None]:
    """Return the network class that has a `training_step`, as a dictionary with at most one key.

    Lightning instantiates such a class itself, as in `LightningCLI(Net)`.
    """
    steps = {name for name in own if "training_step" in _methods(code, name)}
    return dict.fromkeys(sorted(steps)[:1])


def _methods(code: Code, name: str) -> dict[str, Function]:
    body = code.facts.classes[name][0].body if name in code.facts.classes else []
    found = (part for part in reversed(body) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef))
    return {part.name: part for part in found}


class NetworkBuilder:
    """Evaluates constructors and adds up the weights of the layers that they create."""

    def __init__(self, code: Code, own: set[str]) -> None:
        self.code = code
        self.own = own
        self.weights = self.sized = self.unsized = 0
        self.missing = False  # whether a published network with an unknown name was found
        self.whole_name = ""
        self._steps = self._depth = 0
        self._at: tuple[str, int] = ("", 0)
        self._attributes: dict[str, dict[str, ast.expr]] = {}  # class attributes by class, filled on demand
        self._methods_by_class: dict[str, dict[str, Function]] = {}

    def result(self) -> WeightCount | None:
        trusted = self.unsized <= MAX_UNSIZED_SHARE * (self.sized + self.unsized)
        if not 0 < self.weights <= MAX_WEIGHTS or not trusted or self.missing:
            return None
        return WeightCount(self.weights, *self._at)

    def step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise EvaluationLimit

    def build(self, name: str, node: ast.Call | None, scope: Scope, *, outermost: bool = False) -> object:
        """Evaluate the constructor of a network class in the code, and return the module with its weights."""
        init = self.methods(name).get("__init__")
        before = self.weights
        if init is not None and self._depth < MAX_DEPTH:
            inside: Scope = {"self": {"": name}}
            inside.update(self._bind_arguments(init, node, scope, outermost=outermost, skip=1))
            self._follow(init, inside)
        return BuiltModule(self.weights - before)

    def methods(self, kind: str) -> dict[str, Function]:
        """Return the methods of a class by name; empty if the class is not defined in the code."""
        if kind not in self._methods_by_class:
            self._methods_by_class[kind] = _methods(self.code, kind)
        return self._methods_by_class[kind]

    def _follow(self, function: Function, scope: Scope) -> object:
        self._depth += 1
        found = evaluate.run_body(self, function.body, scope)
        self._depth -= 1
        return UNKNOWN if found is evaluate.NO_RETURN else found

    def _bind_arguments(
        self, function: Function, node: ast.Call | None, scope: Scope, *, outermost: bool, skip: int
    ) -> Scope:
        names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
        found: Scope = dict(self._defaults(function, outermost))
        if node is not None:
            candidates = [a for a in node.args if not isinstance(a, ast.Starred)]
            found.update(zip(names[skip:], (self.value(a, scope) for a in candidates), strict=False))
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
        told = [(name, self.code.settings.configured(normalise_name(name))) for name, _ in found]
        return [*found, *((name, value.value) for name, value in told if value is not None)]

    def value(self, node: ast.expr, scope: Scope) -> object:
        self.step()
        return evaluate.evaluate(self, node, scope)

    def call(self, node: ast.Call, scope: Scope) -> object:
        """Evaluate a call of a network class, a layer, a function of the code, or anything else."""
        name = self._name(node.func, scope)
        if isinstance(node.func, ast.Call) and ast.unparse(node.func).startswith(
            "getattr(torchvision.models"
        ):
            return self._published_network(node.func, scope)
        if name in self.own:
            return self.build(name, node, scope)
        if name in LAYER_SIZES or name in NORM_SIZES:
            return self._layer(name, node, scope)
        helper = self._helper(node.func, scope)
        if helper is not None and self._depth < MAX_DEPTH:
            function, self_of = helper
            inside = self._bind_arguments(function, node, scope, outermost=False, skip=len(self_of))
            return self._follow(function, {**self_of, **inside})
        return self._other_call(name, node, scope)

    def _published_network(self, chosen: ast.Call, scope: Scope) -> object:
        """Count a network created by `getattr(torchvision.models, name)(...)`.

        Return UNKNOWN if the trained network creates it directly, because the caller then adds the size of
        the published network.
        """
        me = scope.get("self")
        if isinstance(me, dict) and me.get("") == self.whole_name:
            return UNKNOWN
        name = self.value(chosen.args[1], scope) if len(chosen.args) > 1 else UNKNOWN
        shape = models.find_model(name) if isinstance(name, str) else None
        self.weights += shape.parameters if shape is not None else 0
        self.missing |= shape is None
        return BuiltModule(shape.parameters if shape is not None else 0)

    def _name(self, func: ast.expr, scope: Scope) -> str:
        held = evaluate.scope_value(func, scope)
        return held.name if isinstance(held, NamedLayer) else dotted_name(func, {}).rpartition(".")[2]

    def _helper(self, func: ast.expr, scope: Scope) -> tuple[Function, Scope] | None:
        """Return the function of the code, or the method of the network, that is called, with its scope; else None."""
        if isinstance(func, ast.Name) and func.id in self.code.facts.functions:
            return self.code.facts.functions[func.id][0], {}
        me = scope.get("self")
        if isinstance(func, ast.Attribute) and dotted_name(func.value, {}) == "self" and isinstance(me, dict):
            found = self.methods(str(me[""])).get(func.attr)
            return (found, {"self": me}) if found is not None else None
        return None

    def _layer(self, name: str, node: ast.Call, scope: Scope) -> object:
        size = (LAYER_SIZES.get(name) or NORM_SIZES[name])(self._arguments(node, scope))
        self.weights += size
        self.sized += bool(size) and name in LAYER_SIZES
        self.unsized += not size and name in LAYER_SIZES
        if size and not self._at[1]:
            self._at = (self._file(scope), node.lineno)
        return BuiltModule(size)

    def _file(self, scope: Scope) -> str:
        me = scope.get("self")
        name = str(me[""]) if isinstance(me, dict) else ""
        return self.code.facts.classes[name][1].file if name else self.code.facts.sources[0].name

    def _arguments(self, node: ast.Call, scope: Scope) -> LayerArguments:
        def get(place: int | None, *names: str) -> object:
            for keyword in node.keywords:
                if keyword.arg in names:
                    return self.value(keyword.value, scope)
            if place is not None and len(node.args) > place and not isinstance(node.args[place], ast.Starred):
                return self.value(node.args[place], scope)
            return None

        return get

    def _other_call(self, name: str, node: ast.Call, scope: Scope) -> object:
        before = self.weights
        if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
            self.value(node.func.value, scope)
        inside = [self.value(a.value if isinstance(a, ast.Starred) else a, scope) for a in node.args]
        inside += [self.value(keyword.value, scope) for keyword in node.keywords]
        if name in _REPEATS and len(inside) > 1 and isinstance(inside[0], BuiltModule):
            self.weights += inside[0].weights * max(as_int(inside[1]) - 1, 0)
        elif name == "deepcopy" and inside and isinstance(inside[0], BuiltModule):
            self.weights += inside[0].weights
        elif (found := evaluate.builtin(name, inside, node, scope)) is not UNKNOWN:
            return found
        elif inside and isinstance(inside[0], TensorShape):
            return inside[0]  # relu(x) and dropout(x) keep the shape
        return BuiltModule(self.weights - before) if self.weights > before else UNKNOWN

    def repeat(self, times: int, weights: int) -> None:
        """Add the weights of a block for its other `times - 1` repetitions; the first is counted already."""
        self.weights += weights * max(times - 1, 0)

    def setting_value(self, node: ast.expr) -> object:
        """Return the value of an option, setting or constant that the constructor does not define."""
        found = self.code.settings.evaluate(node)
        if found is not None:
            return found.value
        key = (
            node.slice.value
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
            else ""
        )
        name = normalise_name(str(key) or dotted_name(node, {}).rpartition(".")[2])
        lists = (b.node for b in self.code.facts.bindings.get(name, ()))
        table = next((n for n in lists if isinstance(n, ast.List | ast.Tuple)), None)
        return self.value(table, {}) if table is not None else UNKNOWN

    def class_attribute(self, name: str, attribute: str) -> object:
        """Return the value of a class attribute such as `Block.expansion`; UNKNOWN if there is none."""
        if name not in self._attributes:
            body = self.code.facts.classes[name][0].body if name in self.code.facts.classes else ()
            plain = [part for part in reversed(body) if isinstance(part, ast.Assign)]
            self._attributes[name] = {dotted_name(part.targets[0], {}): part.value for part in plain}
        found = self._attributes[name].get(attribute)
        return UNKNOWN if found is None else self.value(found, {})

    def is_layer_class(self, name: str) -> bool:
        return name in self.own or name in LAYER_SIZES or name in NORM_SIZES
