"""Bytes kept from the forward pass for the backward pass, by architecture. One sample each.

Transformers follow Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022):
34 bytes per token, width and layer in half precision, plus 5 per attention score, here for any element size.
Convolutional networks keep what each convolution gives and what each normalisation gives.
"""

from dataclasses import dataclass
from typing import Literal

from anygpu.plan.models import Shape

Heads = Literal["two-stage", "one-stage", "segment"]

BATCH_NORM_COPIES = 2.3  # the convolution's output, the activation's, and the sums of the shortcuts
FROZEN_NORM_COPIES = 1.25
SILU_COPIES = 3.5  # an activation that cannot work in place keeps its input too; concatenations copy
BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """How the numbers are kept: `mixed` is autocast over 32-bit weights."""

    element: int = 4
    mixed: bool = False
    fused_attention: bool = True
    frozen: bool = False  # adapters: the inputs of frozen matrices need not be kept
    recomputes: bool = False
    chunked_loss: bool = False


def transformer(shape: Shape, tokens: int, numbers: Numbers) -> float:
    """Bytes for one sequence."""
    layer = tokens * shape.hidden * _per_width(shape, numbers) + _scores(shape, tokens, numbers)
    logits = _logits(shape, tokens, numbers)
    if numbers.recomputes:
        return shape.layers * tokens * shape.hidden * numbers.element + layer + logits
    return shape.layers * layer + logits


def _per_width(shape: Shape, numbers: Numbers) -> float:
    wide = shape.inner / shape.hidden
    e = numbers.element
    if shape.kind == "gated":
        return e * (10 + (3 if numbers.frozen else 4) * wide) + 7  # its norms are kept in 32 bits
    if numbers.frozen:
        return e * (10 + wide)
    casts = 10 if numbers.mixed else 0  # normalisations run in 32 bits and are cast back
    return e * (8 + 2 * wide) + 2 + casts


def _scores(shape: Shape, tokens: int, numbers: Numbers) -> float:
    """Attention written out keeps every score: softmax, dropout mask, dropped."""
    if numbers.fused_attention:
        return 0.0
    each = 11 if numbers.mixed else 9 if numbers.element == 4 else 5
    return each * shape.heads * tokens * tokens


def _logits(shape: Shape, tokens: int, numbers: Numbers) -> float:
    if shape.kind not in ("decoder", "gated") or numbers.chunked_loss:
        return 0.0
    return tokens * shape.vocab * (numbers.element + 8)


def vision_transformer(shape: Shape, pixels: int, numbers: Numbers) -> float:
    tokens = pixels // max(shape.vocab, 1) ** 2 + 1  # `vocab` holds the patch
    return transformer(shape, tokens, numbers)


def convolutional(shape: Shape, pixels: int, numbers: Numbers) -> float:
    copies = SILU_COPIES if shape.kind == "yolo" else BATCH_NORM_COPIES
    kept = shape.activations * 1e6 * pixels / shape.size**2 * copies * numbers.element
    return kept / 4 if numbers.recomputes else kept


def resnet_per_pixel(
    depth: int, *, groups_width: int = 64, output_stride: int = 32, frozen_stages: int = 0
) -> float:
    """Outputs of convolutions per input pixel, of the stages that are trained."""
    total = 0.0 if frozen_stages else 64 / 4
    for stage, blocks in enumerate(BLOCKS[depth]):
        if stage < frozen_stages:
            continue
        stride = min(4 * 2**stage, output_stride)
        planes, width = 64 * 2**stage, groups_width * 2**stage
        out = planes if depth < 50 else 4 * planes
        block = 2 * planes if depth < 50 else 2 * width + out
        total += (blocks * block + out) / stride**2
    return total


def detector(
    depth: int, pixels: int, heads: Heads, numbers: Numbers, *, width: int = 64, frozen_norm: bool = False
) -> float:
    """A ResNet with a feature pyramid, its first stage frozen as in the usual recipes."""
    copies = FROZEN_NORM_COPIES if frozen_norm else BATCH_NORM_COPIES
    backbone = resnet_per_pixel(depth, groups_width=width, frozen_stages=1) * copies
    return (backbone + _head_per_pixel(heads)) * pixels * numbers.element + _regions(heads) * numbers.element


def segmenter(depth: int, pixels: int, numbers: Numbers, *, output_stride: int = 8, width: int = 64) -> float:
    """A dilated ResNet with a pyramid or convolution head, whole image."""
    backbone = resnet_per_pixel(depth, groups_width=width, output_stride=output_stride) * BATCH_NORM_COPIES
    return (backbone + _head_per_pixel("segment")) * pixels * numbers.element


def _head_per_pixel(heads: Heads) -> float:
    levels = {"two-stage": 1 / 16 + 1 / 64 + 1 / 256 + 1 / 1024, "one-stage": 1 / 64 + 1 / 256 + 1 / 1024}
    if heads == "segment":
        return (4096 + 512 * 2 + 256 * 2) / 64 + 19 * 3
    pyramid = 2 * 256 * levels[heads]
    if heads == "two-stage":
        return pyramid + 2 * 256 * levels[heads]
    return pyramid + (8 * 256 + 5 * 756) * levels[heads]


def _regions(heads: Heads) -> float:
    """512 regions of 7 x 7 x 256 numbers, pooled, and two wide layers."""
    return 512 * (256 * 49 * 2 + 4 * 1024) if heads == "two-stage" else 0.0


def unknown(parameters: int, numbers: Numbers) -> float:
    """A network of which only the size is known: between a picture's and a sentence's."""
    return float(30 * parameters**0.8 * numbers.element)
