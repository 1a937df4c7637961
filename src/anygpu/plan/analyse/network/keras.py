"""Count the weights of Keras and flax models.

The layers of these models are given only the size of their output. Their number of weights also depends on
the size of their input, so the shape of the data is computed from layer to layer.
"""

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from anygpu.plan.analyse.code.syntax import CallSite
from anygpu.plan.analyse.code.training_code import Code
from anygpu.plan.analyse.network import evaluate
from anygpu.plan.analyse.network.evaluate import UNKNOWN, Scope, TensorShape
from anygpu.plan.analyse.network.layer_sizes import as_int, kernel_area
from anygpu.plan.analyse.network.torch import EvaluationLimit, Function, NetworkBuilder, WeightCount

_POOLS = ("MaxPooling", "AveragePooling", "MaxPool", "AvgPool", "max_pool", "avg_pool")
_SHAPES = ("input_shape", "input_dim", "batch_input_shape")
_GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}


@dataclass(frozen=True, slots=True)
class KerasLayer:
    """A layer that has not been called on an input yet."""

    name: str
    positional: list[object]
    keywords: dict[str, object]

    def get(self, place: int | None, *names: str) -> object:
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.positional[place] if place is not None and len(self.positional) > place else None


@dataclass(slots=True)
class SequentialModel:
    """A Sequential model: its output so far, and the layers that wait for the shape of their input."""

    output: object = field(default=UNKNOWN)
    waiting: list[KerasLayer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CustomLayer:
    """A layer class defined in the code, with the attributes that its constructor sets."""

    kind: str
    attributes: Scope


def count_keras_weights(code: Code) -> WeightCount | None:
    """Count the weights of a Keras model, or of a flax model that consists of a single class.

    Return None if they cannot be counted.
    """
    chain = KerasBuilder(code, set())
    try:
        return _keras(chain, code) or _flax(chain, code)
    except (EvaluationLimit, RecursionError):
        return None


def _keras(chain: "KerasBuilder", code: Code) -> WeightCount | None:
    calls = code.facts.calls_of("Model", "Sequential")
    models = [c for c in calls if "keras" in c.name and not c.context.owner]
    if not models:
        return None
    models.sort(
        key=lambda c: c.short_name != "Model"
    )  # if there is a Model, a Sequential is part of that model or only augments data
    name = models[0].context.function
    if not name:
        body = [s for s in code.facts.sources[0].tree.body if not isinstance(s, ast.For | ast.While)]
        evaluate.run_body(chain, body, {})
    else:
        used = code.facts.first_call(name)
        chain.follow_from(code.facts.functions[name][0], used.node if used is not None else None, {})
    return chain.total(models[0])


def _flax(chain: "KerasBuilder", code: Code) -> WeightCount | None:
    init_call = next((c for c in code.facts.calls_of("init", "tabulate") if len(c.node.args) > 1), None)
    inside = init_call.node.args[1] if init_call is not None else None
    if init_call is None or not isinstance(inside, ast.Call) or not inside.args or not code.imports("flax"):
        return None
    shape = chain.value(inside.args[0], {})
    kind = code.facts.made_by.get(init_call.base.rpartition(".")[2], "").rpartition(".")[2]
    call = chain.methods(kind).get("__call__")
    if call is None or not isinstance(shape, list) or len(call.args.args) < 2:
        return None
    scope: Scope = {
        "self": {"": kind, **chain.field_values(kind)},
        call.args.args[1].arg: TensorShape(tuple(shape[1:])),
    }
    evaluate.run_body(chain, call.body, scope)
    return chain.total(init_call)


class KerasBuilder(NetworkBuilder):
    """Computes the shapes of tensors from layer to layer, and counts the weights of the layers."""

    def __init__(self, code: Code, own: set[str]) -> None:
        super().__init__(code, own)
        self.stacks: list[SequentialModel] = []

    def total(self, at: CallSite) -> WeightCount | None:
        waits = any(layer.name in _WEIGHT_RULES for stack in self.stacks for layer in stack.waiting)
        known = self.weights and not self.unsized and not waits
        return WeightCount(self.weights, at.file, at.line) if known else None

    def follow_from(self, function: Function, node: ast.Call | None, scope: Scope) -> None:
        self._follow(function, self._bind_arguments(function, node, scope, outermost=True, skip=0))

    def field_values(self, kind: str) -> dict[str, object]:
        parts = [p for p in self.code.facts.classes[kind][0].body if isinstance(p, ast.AnnAssign) and p.value]
        return {ast.unparse(p.target): self.value(p.value, {}) for p in parts if p.value is not None}

    def call(self, node: ast.Call, scope: Scope) -> object:
        name = self._name(node.func, scope)
        callee = self._callee(node.func, scope)
        if isinstance(callee, KerasLayer | SequentialModel | CustomLayer):
            tensor = self.value(node.args[0], scope) if node.args else UNKNOWN
            return self._call_layer(callee, tensor)
        if isinstance(node.func, ast.Call) and self._name(node.func.func, scope) in self.code.facts.classes:
            self.unsized += 1  # a custom layer whose weights are unknown
        if name == "add" and isinstance(node.func, ast.Attribute) and node.args:
            return self._add_layer(
                evaluate.scope_value(node.func.value, scope), self.value(node.args[0], scope)
            )
        if self._is_own_layer(name):
            return self._custom_layer(name, node, scope)
        if name in ("Input", "InputLayer", "Sequential") or name in _LAYERS or _is_pool(name):
            return self._create(name, node, scope)
        if isinstance(node.func, ast.Attribute) and name in ("reshape", "flatten"):
            return _flat(evaluate.scope_value(node.func.value, scope))
        return super().call(node, scope)

    def _is_own_layer(self, name: str) -> bool:
        return "call" in self.methods(name)

    def _custom_layer(self, kind: str, node: ast.Call, scope: Scope) -> object:
        instance: Scope = {"": kind}
        init = self.methods(kind).get("__init__")
        if init is not None:
            tensor = self._bind_arguments(init, node, scope, outermost=False, skip=1)
            self._follow(init, {"self": instance, **tensor})
        return CustomLayer(kind, instance)

    def _call_layer(self, through: KerasLayer | SequentialModel | CustomLayer, tensor: object) -> object:
        if isinstance(through, KerasLayer):
            return self.apply(through, tensor)
        if isinstance(through, CustomLayer):
            call = self.methods(through.kind)["call"]
            names = [a.arg for a in call.args.args[1:2]]
            return self._follow(call, {"self": through.attributes, **dict.fromkeys(names, tensor)})
        waiting, through.waiting = through.waiting, []
        for layer in waiting:
            tensor = self.apply(layer, tensor)
        return tensor

    def _callee(self, func: ast.expr, scope: Scope) -> object:
        return self.value(func, scope) if isinstance(func, ast.Call) else evaluate.scope_value(func, scope)

    def _create(self, name: str, node: ast.Call, scope: Scope) -> object:
        candidates = [self.value(a, scope) for a in node.args if not isinstance(a, ast.Starred)]
        layer = KerasLayer(
            name, candidates, {k.arg: self.value(k.value, scope) for k in node.keywords if k.arg}
        )
        if name in ("Input", "InputLayer"):
            return _input(layer.get(0, "shape", "input_shape"))
        if _is_pool(name) and candidates and isinstance(candidates[0], TensorShape):
            return _pool(candidates[0], layer.get(1, "window_shape"))
        if name != "Sequential":
            return layer
        stack = SequentialModel()
        self.stacks.append(stack)
        for part in candidates[0] if candidates and isinstance(candidates[0], list) else []:
            self._add_layer(stack, part)
        return stack

    def _add_layer(self, stack: object, part: object) -> object:
        if not isinstance(stack, SequentialModel):
            return part[0] if isinstance(part, list) and part else None  # add([x, shortcut]) keeps the shape
        begins = isinstance(part, KerasLayer) and part.get(None, *_SHAPES) is not None
        if isinstance(part, KerasLayer) and stack.output is UNKNOWN and not begins:
            stack.waiting.append(part)
            return None
        stack.output = part if isinstance(part, TensorShape) else stack.output
        stack.output = self.apply(part, stack.output) if isinstance(part, KerasLayer) else stack.output
        return None

    def apply(self, layer: KerasLayer, tensor: object) -> object:
        """Add the weights of a layer to the total, and return the shape of its output; UNKNOWN if unknown."""
        shape = layer.get(None, *_SHAPES)
        tensor = _input(shape) if shape is not None else tensor
        if layer.name in ("Concatenate", "concatenate"):
            return _concatenate(tensor)
        tensor = tensor[0] if isinstance(tensor, list) and tensor else tensor
        if layer.name == "Bidirectional" and layer.positional and isinstance(layer.positional[0], KerasLayer):
            self.apply(layer.positional[0], tensor)
            out = self.apply(layer.positional[0], tensor)
            return _double_width(out)
        if layer.name not in _WEIGHT_RULES:
            return _output_of(layer, tensor)
        width = as_int(tensor.shape[-1]) if isinstance(tensor, TensorShape) and tensor.shape else 0
        weights, shape = _WEIGHT_RULES[layer.name](layer, width, tensor)
        self.weights += weights
        self.unsized += not weights
        return TensorShape(shape) if isinstance(shape, tuple) else UNKNOWN


WeightAndShape = tuple[int, object]


def _is_pool(name: str) -> bool:
    return name.startswith(_POOLS)


def _input(shape: object) -> object:
    return (
        TensorShape(tuple(shape))
        if isinstance(shape, list)
        else TensorShape((shape,))
        if as_int(shape)
        else UNKNOWN
    )


def _leading_shape(tensor: object) -> tuple[object, ...]:
    return tensor.shape[:-1] if isinstance(tensor, TensorShape) else ()


def _dense(layer: KerasLayer, width: int, tensor: object) -> WeightAndShape:
    units = as_int(layer.get(0, "units", "features"))
    return width * units + units * bool(width), (*_leading_shape(tensor), units)


def _conv(dimensions: int, *, back: bool = False) -> Callable[[KerasLayer, int, object], WeightAndShape]:
    def size(layer: KerasLayer, width: int, tensor: object) -> WeightAndShape:
        filters = as_int(layer.get(0, "filters", "features"))
        window, stride = layer.get(1, "kernel_size"), layer.get(2, "strides")
        plain = layer.get(None, "use_bias") is False
        weights = width * filters * kernel_area(window, dimensions)
        padding = layer.get(3, "padding") or ("same" if layer.name == "Conv" else "valid")
        sides = [
            _side(s, window, stride, str(padding).lower() == "same", back) for s in _leading_shape(tensor)
        ]
        return weights + (0 if plain or not weights else filters), (*sides, filters)

    return size


def _side(side: object, window: object, stride: object, same: bool, back: bool) -> object:
    """Return the side length in pixels after a convolution. With `back`, the convolution is a transposed one."""
    reach, step = as_int(_first_of(window)), as_int(_first_of(stride)) or 1
    if not as_int(side):
        return UNKNOWN
    if back:
        return as_int(side) * step
    return math.ceil(as_int(side) / step) if same else max((as_int(side) - reach) // step + 1, 1)


def _first_of(value: object) -> object:
    return value[0] if isinstance(value, list) and value else value


def _depthwise(layer: KerasLayer, width: int, tensor: object) -> WeightAndShape:
    separable = layer.name == "SeparableConv2D"
    filters = as_int(layer.get(0, "filters")) if separable else width
    kernel = kernel_area(layer.get(1 if separable else 0, "kernel_size"), 2)
    more = width * filters if separable else 0
    return width * kernel + more + filters, (*[UNKNOWN for _ in _leading_shape(tensor)], filters)


def _embedding(layer: KerasLayer, width: int, tensor: object) -> WeightAndShape:
    size = as_int(layer.get(1, "output_dim", "features"))
    shape = tensor.shape if isinstance(tensor, TensorShape) else (UNKNOWN,)
    return as_int(layer.get(0, "input_dim", "num_embeddings")) * size, (*shape, size)


def _recurrent(layer: KerasLayer, width: int, tensor: object) -> WeightAndShape:
    units, gates = as_int(layer.get(0, "units")), _GATES[layer.name]
    whole_sentence = layer.get(None, "return_sequences") is True
    weights = gates * (units * (units + width) + units) if units and width else 0
    return weights, (*(_leading_shape(tensor) if whole_sentence else ()), units)


def _norm(per_width: int) -> Callable[[KerasLayer, int, object], WeightAndShape]:
    def size(layer: KerasLayer, width: int, tensor: object) -> WeightAndShape:
        return per_width * width, tensor.shape if isinstance(tensor, TensorShape) else UNKNOWN

    return size


def _attention(layer: KerasLayer, width: int, tensor: object) -> WeightAndShape:
    inner = as_int(layer.get(0, "num_heads")) * as_int(layer.get(1, "key_dim"))
    return 4 * width * inner, tensor.shape if isinstance(tensor, TensorShape) else UNKNOWN


def _output_of(layer: KerasLayer, tensor: object) -> object:
    if layer.name.startswith("Global") and isinstance(tensor, TensorShape):
        return TensorShape(tensor.shape[-1:])
    if layer.name == "Flatten":
        return _flat(tensor)
    if layer.name == "Reshape":
        return _input(layer.get(0, "target_shape"))
    return _pool(tensor, layer.get(0, "pool_size") or 2) if _is_pool(layer.name) else tensor


def _pool(tensor: object, window: object) -> object:
    step = as_int(_first_of(window)) or 2
    if not isinstance(tensor, TensorShape):
        return tensor
    return TensorShape((*(as_int(s) // step or UNKNOWN for s in tensor.shape[:-1]), *tensor.shape[-1:]))


def _flat(tensor: object) -> object:
    if not isinstance(tensor, TensorShape):
        return UNKNOWN
    sides = [as_int(side) for side in tensor.shape]
    return TensorShape((math.prod(sides) or UNKNOWN,))


def _double_width(out: object) -> object:
    return TensorShape((*out.shape[:-1], 2 * as_int(out.shape[-1]))) if isinstance(out, TensorShape) else out


def _concatenate(tensor: object) -> object:
    parts = tensor if isinstance(tensor, list) else []
    if not parts or not all(isinstance(part, TensorShape) for part in parts):
        return UNKNOWN
    tensors = [part for part in parts if isinstance(part, TensorShape)]
    return TensorShape((*tensors[0].shape[:-1], sum(as_int(t.shape[-1]) for t in tensors)))


_WEIGHT_RULES: dict[str, Callable[[KerasLayer, int, object], WeightAndShape]] = {
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
    *_WEIGHT_RULES,
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
