"""Estimate the peak GPU memory of a training step: weights, gradients, optimiser, activations, overhead.

The formula for the activations of transformers is from Korthikanti et al., "Reducing Activation Recomputation
in Large Transformer Models" (2022), extended to other number formats: in half precision, each layer keeps 34
bytes per token and unit of width, and 5 bytes per attention score. Convolutional networks keep the output of
each convolution and of each normalisation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from anygpu.plan.hardware.models import ModelShape

DetectionHead = Literal["two-stage", "one-stage", "segment"]

BATCH_NORM_COPIES = 2.3  # outputs of convolution and activation, and sums of the shortcuts
FROZEN_NORM_COPIES = 1.25
SILU_COPIES = 3.5  # activations that are not in place also keep their input
RESNET_BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """The options of a training that determine the size of activations.

    `mixed`: autocast with 32-bit weights.
    """

    element_bytes: int = 4
    mixed: bool = False
    fused_attention: bool = True
    frozen: bool = False  # adapters: the inputs of frozen matrices need not be kept
    recomputes: bool = False
    chunked_loss: bool = False


def transformer_activations(shape: ModelShape, tokens: int, number_format: NumberFormat) -> float:
    """Return the bytes of activations for one sequence."""
    layer = tokens * shape.hidden * _per_width(shape, number_format) + _scores(shape, tokens, number_format)
    logits = _logits(shape, tokens, number_format)
    if number_format.recomputes:
        return shape.layers * tokens * shape.hidden * number_format.element_bytes + layer + logits
    return shape.layers * layer + logits


def _per_width(shape: ModelShape, number_format: NumberFormat) -> float:
    wide = shape.inner / shape.hidden
    e = number_format.element_bytes
    if shape.kind == "gated":
        return e * (10 + (3 if number_format.frozen else 4) * wide) + 7  # its norms are kept in 32 bits
    if number_format.frozen:
        return e * (10 + wide)
    casts = 10 if number_format.mixed else 0  # normalisations run in 32 bits and are cast back
    return e * (8 + 2 * wide) + 2 + casts


def _scores(shape: ModelShape, tokens: int, number_format: NumberFormat) -> float:
    """Return how many bytes the attention scores of one layer take; 0 with fused attention.

    The results of softmax and dropout and the dropout mask are kept for the backward pass.
    """
    if number_format.fused_attention:
        return 0.0
    each = 11 if number_format.mixed else 9 if number_format.element_bytes == 4 else 5
    return each * shape.heads * tokens * tokens


def _logits(shape: ModelShape, tokens: int, number_format: NumberFormat) -> float:
    if shape.kind not in ("decoder", "gated") or number_format.chunked_loss:
        return 0.0
    return tokens * shape.vocab * (number_format.element_bytes + 8)


def vit_activations(shape: ModelShape, pixels: int, number_format: NumberFormat) -> float:
    tokens = pixels // max(shape.vocab, 1) ** 2 + 1  # `vocab` holds the patch
    return transformer_activations(shape, tokens, number_format)


def conv_activations(shape: ModelShape, pixels: int, number_format: NumberFormat) -> float:
    copies = SILU_COPIES if shape.kind == "yolo" else BATCH_NORM_COPIES
    kept = shape.activations * 1e6 * pixels / shape.size**2 * copies * number_format.element_bytes
    return kept / 4 if number_format.recomputes else kept


def resnet_per_pixel(
    depth: int, *, groups_width: int = 64, output_stride: int = 32, frozen_stages: int = 0
) -> float:
    """Return how many numbers the convolutions of a ResNet output per input pixel, without frozen stages."""
    total = 0.0 if frozen_stages else 64 / 4
    for stage, blocks in enumerate(RESNET_BLOCKS[depth]):
        if stage < frozen_stages:
            continue
        stride = min(4 * 2**stage, output_stride)
        planes, width = 64 * 2**stage, groups_width * 2**stage
        out = planes if depth < 50 else 4 * planes
        block = 2 * planes if depth < 50 else 2 * width + out
        total += (blocks * block + out) / stride**2
    return total


def detector_activations(
    depth: int,
    pixels: int,
    heads: DetectionHead,
    number_format: NumberFormat,
    *,
    width: int = 64,
    frozen_norm: bool = False,
) -> float:
    """Return the bytes of activations for one image in a detector: a ResNet with a feature pyramid.

    The first stage of the ResNet is assumed to be frozen, as is usual for detectors.
    """
    copies = FROZEN_NORM_COPIES if frozen_norm else BATCH_NORM_COPIES
    backbone = resnet_per_pixel(depth, groups_width=width, frozen_stages=1) * copies
    return (backbone + _head_per_pixel(heads)) * pixels * number_format.element_bytes + _regions(
        heads
    ) * number_format.element_bytes


def segmenter_activations(
    depth: int, pixels: int, number_format: NumberFormat, *, output_stride: int = 8, width: int = 64
) -> float:
    """Return the bytes of activations for one image in a segmentation model with a dilated ResNet."""
    backbone = resnet_per_pixel(depth, groups_width=width, output_stride=output_stride) * BATCH_NORM_COPIES
    return (backbone + _head_per_pixel("segment")) * pixels * number_format.element_bytes


def _head_per_pixel(heads: DetectionHead) -> float:
    levels = {"two-stage": 1 / 16 + 1 / 64 + 1 / 256 + 1 / 1024, "one-stage": 1 / 64 + 1 / 256 + 1 / 1024}
    if heads == "segment":
        return (4096 + 512 * 2 + 256 * 2) / 64 + 19 * 3
    pyramid = 2 * 256 * levels[heads]
    if heads == "two-stage":
        return pyramid + 2 * 256 * levels[heads]
    return pyramid + (8 * 256 + 5 * 756) * levels[heads]


def _regions(heads: DetectionHead) -> float:
    """Return how many numbers a two-stage detector keeps for its 512 pooled regions; 0 for other heads."""
    return 512 * (256 * 49 * 2 + 4 * 1024) if heads == "two-stage" else 0.0


def unknown_activations(parameters: int, number_format: NumberFormat) -> float:
    """Return the bytes of activations for one sample of a model of which only the size is known.

    The estimate is between typical values of image models and text models.
    """
    return float(30 * parameters**0.8 * number_format.element_bytes)


GB = 1e9
CONTEXT_GB = 0.8  # the driver's context and kernels, which no allocator reports
RESERVED_SHARE = 0.06  # of the activations: blocks the allocator keeps but cannot use

Precision = Literal["fp32", "fp16", "bf16", "fp8"]

_OPTIMISER_BYTES = (  # per trained parameter in 32 bits; the first matching prefix counts
    ("adamw_8bit", 2.2),
    ("adamw_bnb", 2.2),
    ("paged_adamw_8bit", 2.2),
    ("paged_adamw_32bit", 8.0),
    ("adam8bit", 2.2),
    ("adamw8bit", 2.2),
    ("adafactor", 0.1),
    ("adam", 8.0),
    ("radam", 8.0),
    ("nadam", 8.0),
    ("lamb", 8.0),
    ("none", 0.0),
    ("lbfgs", 80.0),
)
_ONE_STATE = 4.0  # momentum, RMSProp, Lion, Adagrad


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetup:
    """The training options that determine the memory of a step on one GPU."""

    parameters: int
    shape: ModelShape | None = None
    batch: int = 1
    precision: Precision = "fp32"
    half_weights: bool = False  # the weights themselves are kept in 16 bits
    optimiser: str = "adamw"
    adapters: str = ""  # lora, qlora, lora-8bit
    trained_parameters: int | None = None  # None: all
    recomputes: bool = False
    sequence: int = 512
    pixels: int = 0  # of one image; 0: the model's default
    fused_attention: bool = True
    chunked_loss: bool = False
    shards: int = 1  # GPUs that share weights, gradients and optimiser
    sample_bytes: float | None = None  # activations of one sample, if the caller knows them

    @property
    def is_half_precision(self) -> bool:
        return self.precision != "fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """GPU memory in gigabytes (10^9 bytes) by purpose, and an interval for the peak."""

    weights_gb: float
    gradients_gb: float
    optimiser_gb: float
    activations_gb: float
    reserved_gb: float
    context_gb: float
    low_gb: float
    high_gb: float
    confidence: float

    @property
    def allocated_gb(self) -> float:
        """Peak memory that the framework's allocator hands out, such as `torch.cuda.max_memory_allocated`."""
        return self.weights_gb + self.gradients_gb + self.optimiser_gb + self.activations_gb

    @property
    def peak_gb(self) -> float:
        """GPU memory that training needs at its peak, including the allocator's reserve and the driver."""
        return self.allocated_gb + self.reserved_gb + self.context_gb

    def fits(self, gpu_memory_gb: float) -> bool:
        """Return whether the expected peak fits a GPU with this memory."""
        return self.peak_gb <= gpu_memory_gb

    def describe(self) -> str:
        return (
            f"{self.peak_gb:.1f} GB ({self.low_gb:.1f} to {self.high_gb:.1f}): weights {self.weights_gb:.1f},"
            f" gradients {self.gradients_gb:.1f}, optimiser {self.optimiser_gb:.1f},"
            f" activations {self.activations_gb:.1f}, overhead {self.reserved_gb + self.context_gb:.1f}"
        )


def estimate_memory(training: TrainingSetup, *, context_gb: float = CONTEXT_GB) -> MemoryEstimate:
    """Estimate the peak memory of one training step on one GPU."""
    trained_parameters = _trained_parameters(training)
    weights = _weights(training, trained_parameters) / training.shards / GB
    gradients = trained_parameters * (2 if training.half_weights else 4) / training.shards / GB
    optimiser = trained_parameters * _optimiser_bytes(training) / training.shards / GB
    kept = training.batch * _sample_bytes(training) / GB
    reserved = RESERVED_SHARE * kept
    total = weights + gradients + optimiser + kept + reserved + context_gb
    spread = _spread(training)
    fixed = weights + gradients + optimiser
    return MemoryEstimate(
        weights_gb=weights,
        gradients_gb=gradients,
        optimiser_gb=optimiser,
        activations_gb=kept,
        reserved_gb=reserved,
        context_gb=context_gb,
        low_gb=max(0.9 * fixed + kept / spread, total / spread),
        high_gb=1.1 * fixed + (kept + reserved) * spread + context_gb + 0.7,
        confidence=_confidence(training),
    )


def _trained_parameters(training: TrainingSetup) -> int:
    if training.trained_parameters is not None:
        return training.trained_parameters
    return int(training.parameters * 0.005) if training.adapters else training.parameters


def _weights(training: TrainingSetup, trained_parameters: int) -> float:
    """Return the bytes of the weights, including the 16-bit copies that autocast keeps."""
    frozen = training.parameters - trained_parameters if training.adapters else 0
    if training.adapters == "qlora":
        return _quantised_bytes(training, 0.5625) + trained_parameters * 4
    if training.adapters == "lora-8bit":
        return _quantised_bytes(training, 1.06) + trained_parameters * 4
    if training.half_weights:
        return 2.0 * training.parameters
    own = (training.parameters - frozen) * (6 if training.is_half_precision else 4)
    return own + frozen * (2 if training.is_half_precision else 4)


def _quantised_bytes(training: TrainingSetup, bytes_each: float) -> float:
    """Return the bytes of quantised weights.

    Embeddings are not quantised but stored in 16 bits. One layer at a time is converted back to 16 bits.
    """
    shape = training.shape
    embeddings = 2 * shape.vocab * shape.hidden if shape is not None and shape.layers else 0
    rest = max(training.parameters - embeddings, 0)
    unpacked = 2 * rest / shape.layers if shape is not None and shape.layers else 0
    return rest * bytes_each + embeddings * 2 + unpacked


def _optimiser_bytes(training: TrainingSetup) -> float:
    name = training.optimiser.lower()
    state_bytes = next((size for begins, size in _OPTIMISER_BYTES if name.startswith(begins)), _ONE_STATE)
    return state_bytes / 2 if training.half_weights and state_bytes > 2.5 else state_bytes


def _sample_bytes(training: TrainingSetup) -> float:
    if training.sample_bytes is not None:
        return training.sample_bytes
    number_format = NumberFormat(
        element_bytes=2 if training.is_half_precision else 4,
        mixed=training.is_half_precision and not training.half_weights,
        fused_attention=training.fused_attention,
        frozen=bool(training.adapters),
        recomputes=training.recomputes,
        chunked_loss=training.chunked_loss,
    )
    shape = training.shape
    reader = _BY_KIND.get(shape.kind) if shape is not None else None
    if shape is None or reader is None:
        return unknown_activations(training.parameters, number_format)
    return reader(shape, training, number_format)


def _text(shape: ModelShape, training: TrainingSetup, number_format: NumberFormat) -> float:
    return transformer_activations(shape, training.sequence, number_format)


def _image(shape: ModelShape, training: TrainingSetup, number_format: NumberFormat) -> float:
    return conv_activations(shape, _pixels(shape, training), number_format)


def _patches(shape: ModelShape, training: TrainingSetup, number_format: NumberFormat) -> float:
    return vit_activations(shape, _pixels(shape, training), number_format)


def _detector(shape: ModelShape, training: TrainingSetup, number_format: NumberFormat) -> float:
    depth = 101 if "101" in shape.name else 50
    heads: DetectionHead = "one-stage" if "retina" in shape.name else "two-stage"
    return detector_activations(depth, training.pixels or 1333 * 800, heads, number_format)


def _diffusion(shape: ModelShape, training: TrainingSetup, number_format: NumberFormat) -> float:
    """Return the bytes of activations for one image in a latent diffusion model (UNet).

    A 512 x 512 image needs about 3.2 GB in 32 bits, and a sixth of that with gradient checkpointing.
    """
    scale = _pixels(shape, training) / 512**2
    larger = math.sqrt(shape.parameters / 1.07e9)
    return 3.2e9 * scale * larger * number_format.element_bytes / 4 / (6 if number_format.recomputes else 1)


def _pixels(shape: ModelShape, training: TrainingSetup) -> int:
    return training.pixels or shape.size**2


_BY_KIND: dict[str, Callable[[ModelShape, TrainingSetup, NumberFormat], float]] = {
    "encoder": _text,
    "decoder": _text,
    "gated": _text,
    "vit": _patches,
    "conv": _image,
    "yolo": _image,
    "detector": _detector,
    "diffusion": _diffusion,
}


def _spread(training: TrainingSetup) -> float:
    """Return the factor by which the predicted memory of the activations may be wrong."""
    if training.sample_bytes is not None:
        return 1.35
    if training.shape is None:
        return 3.0
    return {"diffusion": 2.0, "detector": 1.5}.get(training.shape.kind, 1.45)


def _confidence(training: TrainingSetup) -> float:
    return 0.3 if training.shape is None else 0.75
