"""The weights of single layers, as the frameworks count them."""

import pytest

from anygpu.plan.analyse.network.layer_sizes import (
    LAYER_SIZES,
    NORM_SIZES,
    LayerArguments,
    as_int,
    kernel_area,
)


def arguments(*values: object, **named: object) -> LayerArguments:
    def get(place: int | None, *names: str) -> object:
        for name in names:
            if name in named:
                return named[name]
        return values[place] if place is not None and place < len(values) else None

    return get


@pytest.mark.parametrize(
    ("layer", "get", "weights"),
    [
        ("Linear", arguments(10, 20), 10 * 20 + 20),
        ("Linear", arguments(10, 20, bias=False), 10 * 20),
        ("Linear", arguments(in_features=10, out_features=20), 10 * 20 + 20),
        ("Conv2d", arguments(3, 64, 7), 3 * 64 * 7 * 7 + 64),
        ("Conv2d", arguments(64, 64, (3, 5), groups=64, bias=False), 64 * 3 * 5),
        ("Conv1d", arguments(4, 8, 3), 4 * 8 * 3 + 8),
        ("Embedding", arguments(1000, 16), 16_000),
        ("LSTM", arguments(8, 16), 4 * 16 * (8 + 16 + 2)),
        ("GRU", arguments(8, 16, bidirectional=True), 2 * 3 * 16 * (8 + 16 + 2)),
        ("LSTM", arguments(8, 16, 2), 4 * 16 * (8 + 16 + 2) + 4 * 16 * (16 + 16 + 2)),
        ("MultiheadAttention", arguments(64, 8), 4 * 64 * 65),
        ("GCNConv", arguments(16, 4), 16 * 4 + 4),
    ],
)
def test_a_layer_has_as_many_weights_as_its_framework_gives_it(
    layer: str, get: LayerArguments, weights: int
) -> None:
    assert LAYER_SIZES[layer](get) == weights


def test_a_transformer_layer_has_its_attention_its_feed_forward_and_its_norms() -> None:
    width, inner = 512, 2048
    attention, feed_forward, norms = 4 * width * (width + 1), 2 * width * inner + inner + width, 2 * 2 * width
    size = LAYER_SIZES["TransformerEncoderLayer"](arguments(width, 8))
    assert size == attention + feed_forward + norms


def test_norms_have_two_weights_for_each_feature() -> None:
    assert NORM_SIZES["BatchNorm2d"](arguments(64)) == 128
    assert NORM_SIZES["LayerNorm"](arguments([4, 8])) == 64
    assert NORM_SIZES["GroupNorm"](arguments(8, 64)) == 128


@pytest.mark.parametrize("layer", LAYER_SIZES)
def test_a_layer_with_unknown_sizes_has_no_invented_weights(layer: str) -> None:
    known_by_default = {"Transformer"}
    assert layer in known_by_default or LAYER_SIZES[layer](arguments(None, "wide", -3)) == 0


@pytest.mark.parametrize("value", [None, "8", True, -1, 0, 1e12, float("nan"), [8]])
def test_only_a_plausible_number_is_a_size(value: object) -> None:
    assert as_int(value) == 0


def test_a_kernel_has_one_size_for_all_dimensions_or_one_for_each() -> None:
    assert [kernel_area(3, dimensions) for dimensions in (1, 2, 3)] == [3, 9, 27]
    assert kernel_area((3, 5), 2) == 15
