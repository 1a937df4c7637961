"""Weights of one layer by what its constructor is given, as torch, its graph library and their kin count them."""

import math
from collections.abc import Callable
from typing import Protocol

LARGEST = 5 * 10**12  # weights: nobody has trained more


class Arguments(Protocol):
    """What a layer is given: by the first of these names, or at this place."""

    def __call__(self, place: int | None, *names: str) -> object: ...


def whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
        return 0
    return int(value)


def area(value: object, dimensions: int) -> int:
    """A kernel: 3 is 3 x 3, (3, 5) is 3 x 5."""
    if isinstance(value, list | tuple):
        return math.prod(whole(part) for part in value)
    return math.prod([whole(value)] * dimensions)


def linear(get: Arguments) -> int:
    rows, columns = whole(get(0, "in_features")), whole(get(1, "out_features"))
    return rows * columns + _bias(get, columns)


def bilinear(get: Arguments) -> int:
    return whole(get(0, "in1_features")) * whole(get(1, "in2_features")) * whole(get(2, "out_features"))


def convolution(dimensions: int) -> Callable[[Arguments], int]:
    def size(get: Arguments) -> int:
        takes, gives = whole(get(0, "in_channels")), whole(get(1, "out_channels"))
        kernel, groups = area(get(2, "kernel_size"), dimensions), whole(get(None, "groups")) or 1
        weights = takes * gives * kernel // groups
        return weights + _bias(get, gives) if weights else 0

    return size


def _bias(get: Arguments, width: int) -> int:
    return 0 if get(None, "bias") is False else width


def embedding(get: Arguments) -> int:
    return whole(get(0, "num_embeddings", "input_dim")) * whole(get(1, "embedding_dim", "output_dim"))


def recurrent(gates: int) -> Callable[[Arguments], int]:
    def size(get: Arguments) -> int:
        takes, hidden = whole(get(0, "input_size")), whole(get(1, "hidden_size"))
        deep, ways = whole(get(2, "num_layers")) or 1, 2 if get(None, "bidirectional") is True else 1
        first = gates * hidden * (takes + hidden + 2)
        more = gates * hidden * (hidden * ways + hidden + 2)
        return ways * (first + (deep - 1) * more) if takes and hidden else 0

    return size


def norm(get: Arguments) -> int:
    width = get(0, "num_features", "normalized_shape")
    return 2 * (math.prod(map(whole, width)) if isinstance(width, list | tuple) else whole(width))


def group_norm(get: Arguments) -> int:
    return 2 * whole(get(1, "num_channels"))


def attention(get: Arguments) -> int:
    width = whole(get(0, "embed_dim"))
    return 4 * width * (width + 1)


def transformer_layer(attentions: int) -> Callable[[Arguments], int]:
    def size(get: Arguments) -> int:
        width = whole(get(0, "d_model"))
        inner = whole(get(2, "dim_feedforward")) or 2048
        each = 4 * width * (width + 1) + 2 * width
        return attentions * each + 2 * width * inner + inner + 3 * width if width else 0

    return size


def transformer(get: Arguments) -> int:
    width, inner = whole(get(0, "d_model")) or 512, whole(get(4, "dim_feedforward")) or 2048
    into, out = whole(get(2, "num_encoder_layers")) or 6, whole(get(3, "num_decoder_layers")) or 6

    def layer(place: int | None, *names: str) -> object:
        return {"d_model": width, "dim_feedforward": inner}.get(names[0])

    return into * transformer_layer(1)(layer) + out * transformer_layer(2)(layer) + 4 * width


def graph(matrices: int) -> Callable[[Arguments], int]:
    def size(get: Arguments) -> int:
        takes, gives = whole(get(0, "in_channels")), whole(get(1, "out_channels"))
        heads = whole(get(2, "heads")) or 1
        return matrices * takes * gives * heads + gives * heads if takes and gives else 0

    return size


SIZES: dict[str, Callable[[Arguments], int]] = {
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
# Too small to matter when their width is not known.
NORMS: dict[str, Callable[[Arguments], int]] = {
    "LayerNorm": norm,
    "BatchNorm1d": norm,
    "BatchNorm2d": norm,
    "BatchNorm3d": norm,
    "GroupNorm": group_norm,
}
