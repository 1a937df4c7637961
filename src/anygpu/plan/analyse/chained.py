"""Keras and flax layers know only what they give: the picture or sentence is followed through them for its width."""

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from anygpu.plan.analyse import expressions
from anygpu.plan.analyse.built import Builder, Built, Function, TooMuch
from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.expressions import UNKNOWN, Scope, Tensor
from anygpu.plan.analyse.facts import Call
from anygpu.plan.analyse.sizes import area, whole

_POOLS = ("MaxPooling", "AveragePooling", "MaxPool", "AvgPool", "max_pool", "avg_pool")
_SHAPES = ("input_shape", "input_dim", "batch_input_shape")
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that waits for what it is called on."""

    name: str
    places: list[object]
    named: dict[str, object]

    def get(self, place: int | None, *names: str) -> object:
        for name in names:
            if name in self.named:
                return self.named[name]
        return self.places[place] if place is not None and len(self.places) > place else None


@dataclass(slots=True)
class Stack:
    """A Sequential model: what comes out of it so far, and the layers that wait for something to come in."""

    out: object = field(default=UNKNOWN)
    waiting: list[Layer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Own:
    """A layer of the code's own, with what its constructor keeps."""

    kind: str
    kept: Scope


def chained(code: Code) -> Built | None:
    """The weights of a Keras model, or of a flax module that is written in one piece."""
    chain = Chain(code, set())
    try:
        return _keras(chain, code) or _flax(chain, code)
    except (TooMuch, RecursionError):
        return None


def _keras(chain: "Chain", code: Code) -> Built | None:
    calls = code.facts.calls_of("Model", "Sequential")
    made = [c for c in calls if "keras" in c.name and not c.around.owner]
    if not made:
        return None
    made.sort(
        key=lambda c: c.last != "Model"
    )  # beside a Model, a Sequential is a part of it or only augments
    name = made[0].around.function
    if not name:
        body = [s for s in code.facts.sources[0].tree.body if not isinstance(s, ast.For | ast.While)]
        expressions.run(chain, body, {})
    else:
        used = code.facts.first(name)
        chain.follow_from(code.facts.functions[name][0], used.node if used is not None else None, {})
    return chain.sum(made[0])


def _flax(chain: "Chain", code: Code) -> Built | None:
    begun = next((c for c in code.facts.calls_of("init", "tabulate") if len(c.node.args) > 1), None)
    inside = begun.node.args[1] if begun is not None else None
    if begun is None or not isinstance(inside, ast.Call) or not inside.args or not code.has("flax"):
        return None
    shape = chain.value(inside.args[0], {})
    kind = code.facts.made_by.get(begun.base.rpartition(".")[2], "").rpartition(".")[2]
    call = chain.methods(kind).get("__call__")
    if call is None or not isinstance(shape, list) or len(call.args.args) < 2:
        return None
    scope: Scope = {"self": {"": kind, **chain.fields(kind)}, call.args.args[1].arg: Tensor(tuple(shape[1:]))}
    expressions.run(chain, call.body, scope)
    return chain.sum(begun)


class Chain(Builder):
    """Follows tensors through layers."""

    def __init__(self, code: Code, own: set[str]) -> None:
        super().__init__(code, own)
        self.stacks: list[Stack] = []

    def sum(self, at: Call) -> Built | None:
        waits = any(layer.name in _WEIGHED for stack in self.stacks for layer in stack.waiting)
        known = self.weights and not self.unsized and not waits
        return Built(self.weights, at.file, at.line) if known else None

    def follow_from(self, function: Function, node: ast.Call | None, scope: Scope) -> None:
        self._follow(function, self._given(function, node, scope, outermost=True, skip=0))

    def fields(self, kind: str) -> dict[str, object]:
        parts = [p for p in self.code.facts.classes[kind][0].body if isinstance(p, ast.AnnAssign) and p.value]
        return {ast.unparse(p.target): self.value(p.value, {}) for p in parts if p.value is not None}

    def call(self, node: ast.Call, scope: Scope) -> object:
        name = self._name(node.func, scope)
        callee = self._callee(node.func, scope)
        if isinstance(callee, Layer | Stack | Own):
            given = self.value(node.args[0], scope) if node.args else UNKNOWN
            return self._passes(callee, given)
        if isinstance(node.func, ast.Call) and self._name(node.func.func, scope) in self.code.facts.classes:
            self.unsized += 1  # a layer of the code's own that does not say what it does
        if name == "add" and isinstance(node.func, ast.Attribute) and node.args:
            return self._added(expressions.held(node.func.value, scope), self.value(node.args[0], scope))
        if self._is_own_layer(name):
            return self._kept(name, node, scope)
        if name in ("Input", "InputLayer", "Sequential") or name in _LAYERS or _is_pool(name):
            return self._made(name, node, scope)
        if isinstance(node.func, ast.Attribute) and name in ("reshape", "flatten"):
            return _flat(expressions.held(node.func.value, scope))
        return super().call(node, scope)

    def _is_own_layer(self, name: str) -> bool:
        return "call" in self.methods(name)

    def _kept(self, kind: str, node: ast.Call, scope: Scope) -> object:
        me: Scope = {"": kind}
        init = self.methods(kind).get("__init__")
        if init is not None:
            given = self._given(init, node, scope, outermost=False, skip=1)
            self._follow(init, {"self": me, **given})
        return Own(kind, me)

    def _passes(self, through: Layer | Stack | Own, given: object) -> object:
        if isinstance(through, Layer):
            return self.apply(through, given)
        if isinstance(through, Own):
            call = self.methods(through.kind)["call"]
            names = [a.arg for a in call.args.args[1:2]]
            return self._follow(call, {"self": through.kept, **dict.fromkeys(names, given)})
        waiting, through.waiting = through.waiting, []
        for layer in waiting:
            given = self.apply(layer, given)
        return given

    def _callee(self, func: ast.expr, scope: Scope) -> object:
        return self.value(func, scope) if isinstance(func, ast.Call) else expressions.held(func, scope)

    def _made(self, name: str, node: ast.Call, scope: Scope) -> object:
        places = [self.value(a, scope) for a in node.args if not isinstance(a, ast.Starred)]
        layer = Layer(name, places, {k.arg: self.value(k.value, scope) for k in node.keywords if k.arg})
        if name in ("Input", "InputLayer"):
            return _input(layer.get(0, "shape", "input_shape"))
        if _is_pool(name) and places and isinstance(places[0], Tensor):
            return _pooled(places[0], layer.get(1, "window_shape"))
        if name != "Sequential":
            return layer
        stack = Stack()
        self.stacks.append(stack)
        for part in places[0] if places and isinstance(places[0], list) else []:
            self._added(stack, part)
        return stack

    def _added(self, stack: object, part: object) -> object:
        if not isinstance(stack, Stack):
            return part[0] if isinstance(part, list) and part else None  # add([x, shortcut]) keeps the shape
        begins = isinstance(part, Layer) and part.get(None, *_SHAPES) is not None
        if isinstance(part, Layer) and stack.out is UNKNOWN and not begins:
            stack.waiting.append(part)
            return None
        stack.out = part if isinstance(part, Tensor) else stack.out
        stack.out = self.apply(part, stack.out) if isinstance(part, Layer) else stack.out
        return None

    def apply(self, layer: Layer, given: object) -> object:
        """What comes out of a layer, its weights added."""
        shape = layer.get(None, *_SHAPES)
        given = _input(shape) if shape is not None else given
        if layer.name in ("Concatenate", "concatenate"):
            return _joined(given)
        given = given[0] if isinstance(given, list) and given else given
        if layer.name == "Bidirectional" and layer.places and isinstance(layer.places[0], Layer):
            self.apply(layer.places[0], given)
            out = self.apply(layer.places[0], given)
            return _doubled(out)
        if layer.name not in _WEIGHED:
            return _passed(layer, given)
        width = whole(given.shape[-1]) if isinstance(given, Tensor) and given.shape else 0
        weights, shape = _WEIGHED[layer.name](layer, width, given)
        self.weights += weights
        self.unsized += not weights
        return Tensor(shape) if isinstance(shape, tuple) else UNKNOWN


Weighed = tuple[int, object]


def _is_pool(name: str) -> bool:
    return name.startswith(_POOLS)


def _input(shape: object) -> object:
    return Tensor(tuple(shape)) if isinstance(shape, list) else Tensor((shape,)) if whole(shape) else UNKNOWN


def _before(given: object) -> tuple[object, ...]:
    return given.shape[:-1] if isinstance(given, Tensor) else ()


def _dense(layer: Layer, width: int, given: object) -> Weighed:
    units = whole(layer.get(0, "units", "features"))
    return width * units + units * bool(width), (*_before(given), units)


def _conv(dimensions: int, *, back: bool = False) -> Callable[[Layer, int, object], Weighed]:
    def size(layer: Layer, width: int, given: object) -> Weighed:
        filters = whole(layer.get(0, "filters", "features"))
        window, stride = layer.get(1, "kernel_size"), layer.get(2, "strides")
        plain = layer.get(None, "use_bias") is False
        weights = width * filters * area(window, dimensions)
        padding = layer.get(3, "padding") or ("same" if layer.name == "Conv" else "valid")
        sides = [_side(s, window, stride, str(padding).lower() == "same", back) for s in _before(given)]
        return weights + (0 if plain or not weights else filters), (*sides, filters)

    return size


def _side(side: object, window: object, stride: object, same: bool, back: bool) -> object:
    """Pixels on one side after a convolution."""
    reach, step = whole(_one(window)), whole(_one(stride)) or 1
    if not whole(side):
        return UNKNOWN
    if back:
        return whole(side) * step
    return math.ceil(whole(side) / step) if same else max((whole(side) - reach) // step + 1, 1)


def _one(value: object) -> object:
    return value[0] if isinstance(value, list) and value else value


def _depthwise(layer: Layer, width: int, given: object) -> Weighed:
    separable = layer.name == "SeparableConv2D"
    filters = whole(layer.get(0, "filters")) if separable else width
    kernel = area(layer.get(1 if separable else 0, "kernel_size"), 2)
    more = width * filters if separable else 0
    return width * kernel + more + filters, (*[UNKNOWN for _ in _before(given)], filters)


def _embedding(layer: Layer, width: int, given: object) -> Weighed:
    size = whole(layer.get(1, "output_dim", "features"))
    shape = given.shape if isinstance(given, Tensor) else (UNKNOWN,)
    return whole(layer.get(0, "input_dim", "num_embeddings")) * size, (*shape, size)


def _recurrent(layer: Layer, width: int, given: object) -> Weighed:
    units, gates = whole(layer.get(0, "units")), _GATES[layer.name]
    whole_sentence = layer.get(None, "return_sequences") is True
    weights = gates * (units * (units + width) + units) if units and width else 0
    return weights, (*(_before(given) if whole_sentence else ()), units)


def _norm(per_width: int) -> Callable[[Layer, int, object], Weighed]:
    def size(layer: Layer, width: int, given: object) -> Weighed:
        return per_width * width, given.shape if isinstance(given, Tensor) else UNKNOWN

    return size


def _attention(layer: Layer, width: int, given: object) -> Weighed:
    inner = whole(layer.get(0, "num_heads")) * whole(layer.get(1, "key_dim"))
    return 4 * width * inner, given.shape if isinstance(given, Tensor) else UNKNOWN


def _passed(layer: Layer, given: object) -> object:
    if layer.name.startswith("Global") and isinstance(given, Tensor):
        return Tensor(given.shape[-1:])
    if layer.name == "Flatten":
        return _flat(given)
    if layer.name == "Reshape":
        return _input(layer.get(0, "target_shape"))
    return _pooled(given, layer.get(0, "pool_size") or 2) if _is_pool(layer.name) else given


def _pooled(given: object, window: object) -> object:
    step = whole(_one(window)) or 2
    if not isinstance(given, Tensor):
        return given
    return Tensor((*(whole(s) // step or UNKNOWN for s in given.shape[:-1]), *given.shape[-1:]))


def _flat(given: object) -> object:
    if not isinstance(given, Tensor):
        return UNKNOWN
    sides = [whole(side) for side in given.shape]
    return Tensor((math.prod(sides) or UNKNOWN,))


def _doubled(out: object) -> object:
    return Tensor((*out.shape[:-1], 2 * whole(out.shape[-1]))) if isinstance(out, Tensor) else out


def _joined(given: object) -> object:
    parts = given if isinstance(given, list) else []
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        return UNKNOWN
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return Tensor((*tensors[0].shape[:-1], sum(whole(t.shape[-1]) for t in tensors)))


_WEIGHED: dict[str, Callable[[Layer, int, object], Weighed]] = {
    "Dense": _dense,
    "Conv": _conv(2),
    "Conv1D": _conv(1),
    "Conv2D": _conv(2),
    "Convolution2D": _conv(2),
    "Conv3D": _conv(3),
    "Conv2DTranspose": _conv(2, back=True),
    "SeparableConv2D": _depthwise,
    "DepthwiseConv2D": _depthwise,
    "Embedding": _embedding,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "SimpleRNN": _recurrent,
    "BatchNormalization": _norm(4),
    "LayerNormalization": _norm(2),
    "MultiHeadAttention": _attention,
}
_LAYERS = (
    *_WEIGHED,
    "Bidirectional",
    "Concatenate",
    "Add",
    "Flatten",
    "Reshape",
    "Dropout",
    "SpatialDropout2D",
    "Activation",
    "ReLU",
    "LeakyReLU",
    "Softmax",
    "UpSampling2D",
    "ZeroPadding2D",
    "Rescaling",
    "Normalization",
    "RandomFlip",
    "RandomRotation",
    "RandomZoom",
    "GaussianNoise",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "GlobalMaxPool1D",
    "GlobalAvgPool2D",
)
