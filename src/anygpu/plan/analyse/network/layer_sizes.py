"""Count the weights of single layers, and of a network as the sum of the layers in its code."""

import ast
import math
from collections.abc import Callable
from typing import Protocol

from anygpu.plan.analyse.code.syntax import CallSite
from anygpu.plan.analyse.code.training_code import Code

MAX_WEIGHTS = 5 * 10**12  # more than any trained model


class LayerArguments(Protocol):
    """The type of a function that returns an argument of a layer by one of its names, or else by its position."""

    def __call__(self, place: int | None, *names: str) -> object: ...


def as_int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        return 0
    return int(value)


def kernel_area(value: object, dimensions: int) -> int:
    """Return the number of elements of a kernel: 9 for size 3 in two dimensions, 15 for size (3, 5)."""
    if isinstance(value, list | tuple):
        return math.prod(as_int(part) for part in value)
    return math.prod([as_int(value)] * dimensions)


def linear(get: LayerArguments) -> int:
    rows, columns = as_int(get(0, "in_features")), as_int(get(1, "out_features"))
    return rows * columns + _bias(get, columns)


def bilinear(get: LayerArguments) -> int:
    return as_int(get(0, "in1_features")) * as_int(get(1, "in2_features")) * as_int(get(2, "out_features"))


def convolution(dimensions: int) -> Callable[[LayerArguments], int]:
    def size(get: LayerArguments) -> int:
        inputs, outputs = as_int(get(0, "in_channels")), as_int(get(1, "out_channels"))
        kernel, groups = kernel_area(get(2, "kernel_size"), dimensions), as_int(get(None, "groups")) or 1
        weights = inputs * outputs * kernel // groups
        return weights + _bias(get, outputs) if weights else 0

    return size


def _bias(get: LayerArguments, width: int) -> int:
    return 0 if get(None, "bias") is False else width


def embedding(get: LayerArguments) -> int:
    return as_int(get(0, "num_embeddings", "input_dim")) * as_int(get(1, "embedding_dim", "output_dim"))


def recurrent(gates: int) -> Callable[[LayerArguments], int]:
    def size(get: LayerArguments) -> int:
        inputs, hidden = as_int(get(0, "input_size")), as_int(get(1, "hidden_size"))
        deep, ways = as_int(get(2, "num_layers")) or 1, 2 if get(None, "bidirectional") is True else 1
        first = gates * hidden * (inputs + hidden + 2)
        more = gates * hidden * (hidden * ways + hidden + 2)
        return ways * (first + (deep - 1) * more) if inputs and hidden else 0

    return size


def norm(get: LayerArguments) -> int:
    width = get(0, "num_features", "normalized_shape")
    return 2 * (math.prod(map(as_int, width)) if isinstance(width, list | tuple) else as_int(width))


def group_norm(get: LayerArguments) -> int:
    return 2 * as_int(get(1, "num_channels"))


def attention(get: LayerArguments) -> int:
    width = as_int(get(0, "embed_dim"))
    return 4 * width * (width + 1)


def transformer_layer(attentions: int) -> Callable[[LayerArguments], int]:
    def size(get: LayerArguments) -> int:
        width = as_int(get(0, "d_model"))
        inner = as_int(get(2, "dim_feedforward")) or 2048
        each = 4 * width * (width + 1) + 2 * width
        return attentions * each + 2 * width * inner + inner + 3 * width if width else 0

    return size


def transformer(get: LayerArguments) -> int:
    width, inner = as_int(get(0, "d_model")) or 512, as_int(get(4, "dim_feedforward")) or 2048
    into, out = as_int(get(2, "num_encoder_layers")) or 6, as_int(get(3, "num_decoder_layers")) or 6

    def layer(place: int | None, *names: str) -> object:
        return {"d_model": width, "dim_feedforward": inner}.get(names[0])

    return into * transformer_layer(1)(layer) + out * transformer_layer(2)(layer) + 4 * width


def graph(matrices: int) -> Callable[[LayerArguments], int]:
    def size(get: LayerArguments) -> int:
        inputs, outputs = as_int(get(0, "in_channels")), as_int(get(1, "out_channels"))
        heads = as_int(get(2, "heads")) or 1
        return matrices * inputs * outputs * heads + outputs * heads if inputs and outputs else 0

    return size


LAYER_SIZES: dict[str, Callable[[LayerArguments], int]] = {
    "Linear": linear,
    "Bilinear": bilinear,
    "Conv1d": convolution(1),
    "Conv2d": convolution(2),
    "Conv3d": convolution(3),
    "ConvTranspose1d": convolution(1),
    "ConvTranspose2d": convolution(2),
    "ConvTranspose3d": convolution(3),
    "Embedding": embedding,
    "EmbeddingBag": embedding,
    "LSTM": recurrent(4),
    "GRU": recurrent(3),
    "RNN": recurrent(1),
    "LSTMCell": recurrent(4),
    "GRUCell": recurrent(3),
    "MultiheadAttention": attention,
    "TransformerEncoderLayer": transformer_layer(1),
    "TransformerDecoderLayer": transformer_layer(2),
    "Transformer": transformer,
    "GCNConv": graph(1),
    "SAGEConv": graph(2),
    "GATConv": graph(1),
    "GATv2Conv": graph(2),
    "GraphConv": graph(2),
}
# Layers with so few weights that an unknown width does not matter.
NORM_SIZES: dict[str, Callable[[LayerArguments], int]] = {
    "LayerNorm": norm,
    "BatchNorm1d": norm,
    "BatchNorm2d": norm,
    "BatchNorm3d": norm,
    "GroupNorm": group_norm,
}

_BASES = ("Module", "LightningModule", "Model", "Layer")
_ALL_SIZES = LAYER_SIZES | NORM_SIZES


def network_classes(code: Code) -> set[str]:
    """Return the names of the classes in the code that are networks, such as subclasses of `nn.Module`."""
    found: set[str] = set()
    for _ in range(4):
        for name, (node, _around) in code.facts.classes.items():
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(base in _BASES or base in found for base in bases) and "DataModule" not in "".join(bases):
                found.add(name)
    return found


def count_layer_weights(code: Code, name: str) -> tuple[int, int, str]:
    """Return the number of weights, and line and file of the first layer; (0, 0, "") if they are unknown."""
    own = network_classes(code)
    calls = [call for call in code.facts.calls if call.short_name in _ALL_SIZES and _is_counted(call, own)]
    total, unknown, line, file = 0, 0, 0, ""
    parts = _InstanceCounts(code, own)
    for call in calls:
        size = _ALL_SIZES[call.short_name](_arguments(code, call))
        total += size * _repetitions(code, call) * parts.times(call.context.owner)
        unknown += not size and call.short_name not in NORM_SIZES
        line, file = line or call.line, file or call.file
    trusted = unknown <= len(calls) * 0.4 and not code.imports("flax", "keras", "tensorflow")
    return (total, line, file) if trusted and total < MAX_WEIGHTS else (0, 0, "")


class _InstanceCounts:
    """Counts how many instances of each class a network contains, including those in lists of blocks."""

    def __init__(self, code: Code, own: set[str]) -> None:
        self._code = code
        self._made: dict[str, list[CallSite]] = {}
        self._cache: dict[tuple[str, int], int] = {}
        for call in code.facts.calls:
            if call.context.owner in own and call.context.owner != call.short_name:
                self._made.setdefault(call.short_name, []).append(call)

    def times(self, name: str, deep: int = 0) -> int:
        made = self._made.get(name, ()) if name and deep <= 5 else ()
        if (name, deep) not in self._cache:
            each = (
                _repetitions(self._code, call) * self.times(call.context.owner, deep + 1) for call in made
            )
            self._cache[name, deep] = sum(each) if made else 1
        return self._cache[name, deep]


def _is_counted(call: CallSite, own: set[str]) -> bool:
    return call.context.owner in own or not call.context.owner


def _repetitions(code: Code, call: CallSite) -> int:
    """Return how often a layer is repeated, such as 12 for `[Block(...) for _ in range(12)]`."""
    times = 1
    for repeated in call.context.repeats:
        node = repeated.args[-1] if isinstance(repeated, ast.Call) and repeated.args else None
        setting = code.settings.evaluate_number(node)
        if setting is not None and isinstance(setting.value, int) and 0 < setting.value < 1000:
            times *= setting.value
    return times


def _arguments(code: Code, call: CallSite) -> LayerArguments:
    def get(place: int | None, *names: str) -> object:
        node = call.argument(*names, position=place)
        if isinstance(node, ast.Tuple | ast.List):
            return [
                setting.value if (setting := code.settings.evaluate_number(part)) else None
                for part in node.elts
            ]
        setting = code.settings.evaluate(node)
        return setting.value if setting is not None else None

    return get
