"""Predicted peak GPU memory of a training step: weights, gradients, optimiser, activations, overhead."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from anygpu.plan import activations
from anygpu.plan.activations import Numbers
from anygpu.plan.models import Shape

GB = 1e9
CONTEXT_GB = 0.8  # the driver's context and kernels, which no allocator reports
RESERVED = 0.06  # of the activations: blocks the allocator keeps but cannot use

Precision = Literal["fp32", "fp16", "bf16", "fp8"]

_OPTIMISER_BYTES = (  # per trained parameter in 32 bits; the first name that begins so
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
class Training:
    """What decides the memory of one step on one GPU."""

    parameters: int
    shape: Shape | None = None
    batch: int = 1
    precision: Precision = "fp32"
    pure: bool = False  # the weights themselves are kept in 16 bits
    optimiser: str = "adamw"
    adapters: str = ""  # lora, qlora, lora-8bit
    trained: int | None = None  # parameters that are; all when None
    recomputes: bool = False
    sequence: int = 512
    pixels: int = 0  # of one image; 0: the model's usual
    fused_attention: bool = True
    chunked_loss: bool = False
    shards: int = 1  # GPUs that share weights, gradients and optimiser
    sample_bytes: float | None = None  # activations of one sample where a caller knows better

    @property
    def half(self) -> bool:
        return self.precision != "fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Gigabytes (10^9 bytes) by purpose, and the interval the true peak should lie in."""

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
        """What the framework's own counter shows at its peak."""
        return self.weights_gb + self.gradients_gb + self.optimiser_gb + self.activations_gb

    @property
    def peak_gb(self) -> float:
        """What the GPU must have free."""
        return self.allocated_gb + self.reserved_gb + self.context_gb

    def fits(self, gpu_memory_gb: float) -> bool:
        """Whether it will hold it, by the expected peak."""
        return self.peak_gb <= gpu_memory_gb

    def sentence(self) -> str:
        return (
            f"{self.peak_gb:.1f} GB ({self.low_gb:.1f} to {self.high_gb:.1f}): weights {self.weights_gb:.1f},"
            f" gradients {self.gradients_gb:.1f}, optimiser {self.optimiser_gb:.1f},"
            f" activations {self.activations_gb:.1f}, overhead {self.reserved_gb + self.context_gb:.1f}"
        )


def estimate(training: Training, *, context_gb: float = CONTEXT_GB) -> Estimate:
    """The peak of one training step on one GPU."""
    trained = _trained(training)
    weights = _weights(training, trained) / training.shards / GB
    gradients = trained * (2 if training.pure else 4) / training.shards / GB
    optimiser = trained * _optimiser_bytes(training) / training.shards / GB
    kept = training.batch * _sample_bytes(training) / GB
    reserved = RESERVED * kept
    total = weights + gradients + optimiser + kept + reserved + context_gb
    spread = _spread(training)
    fixed = weights + gradients + optimiser
    return Estimate(
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


def _trained(training: Training) -> int:
    if training.trained is not None:
        return training.trained
    return int(training.parameters * 0.005) if training.adapters else training.parameters


def _weights(training: Training, trained: int) -> float:
    """Bytes of the weights, with the half copies that autocast keeps."""
    frozen = training.parameters - trained if training.adapters else 0
    if training.adapters == "qlora":
        return _quantised(training, 0.5625) + trained * 4
    if training.adapters == "lora-8bit":
        return _quantised(training, 1.06) + trained * 4
    if training.pure:
        return 2.0 * training.parameters
    own = (training.parameters - frozen) * (6 if training.half else 4)
    return own + frozen * (2 if training.half else 4)


def _quantised(training: Training, bytes_each: float) -> float:
    """Embeddings stay in 16 bits; one layer is held unpacked while it works."""
    shape = training.shape
    embeddings = 2 * shape.vocab * shape.hidden if shape is not None and shape.layers else 0
    rest = max(training.parameters - embeddings, 0)
    unpacked = 2 * rest / shape.layers if shape is not None and shape.layers else 0
    return rest * bytes_each + embeddings * 2 + unpacked


def _optimiser_bytes(training: Training) -> float:
    name = training.optimiser.lower()
    found = next((size for begins, size in _OPTIMISER_BYTES if name.startswith(begins)), _ONE_STATE)
    return found / 2 if training.pure and found > 2.5 else found


def _sample_bytes(training: Training) -> float:
    if training.sample_bytes is not None:
        return training.sample_bytes
    numbers = Numbers(
        element=2 if training.half else 4,
        mixed=training.half and not training.pure,
        fused_attention=training.fused_attention,
        frozen=bool(training.adapters),
        recomputes=training.recomputes,
        chunked_loss=training.chunked_loss,
    )
    shape = training.shape
    reader = _BY_KIND.get(shape.kind) if shape is not None else None
    if shape is None or reader is None:
        return activations.unknown(training.parameters, numbers)
    return reader(shape, training, numbers)


def _text(shape: Shape, training: Training, numbers: Numbers) -> float:
    return activations.transformer(shape, training.sequence, numbers)


def _image(shape: Shape, training: Training, numbers: Numbers) -> float:
    return activations.convolutional(shape, _pixels(shape, training), numbers)


def _patches(shape: Shape, training: Training, numbers: Numbers) -> float:
    return activations.vision_transformer(shape, _pixels(shape, training), numbers)


def _detector(shape: Shape, training: Training, numbers: Numbers) -> float:
    depth = 101 if "101" in shape.name else 50
    heads: activations.Heads = "one-stage" if "retina" in shape.name else "two-stage"
    return activations.detector(depth, training.pixels or 1333 * 800, heads, numbers)


def _diffusion(shape: Shape, training: Training, numbers: Numbers) -> float:
    """A UNet over latents: about 3.2 GB an image of 512 x 512 in 32 bits, a sixth when recomputed."""
    scale = _pixels(shape, training) / 512**2
    larger = math.sqrt(shape.parameters / 1.07e9)
    return 3.2e9 * scale * larger * numbers.element / 4 / (6 if numbers.recomputes else 1)


def _pixels(shape: Shape, training: Training) -> int:
    return training.pixels or shape.size**2


_BY_KIND: dict[str, Callable[[Shape, Training, Numbers], float]] = {
    "encoder": _text,
    "decoder": _text,
    "gated": _text,
    "vit": _patches,
    "conv": _image,
    "yolo": _image,
    "detector": _detector,
    "diffusion": _diffusion,
}


def _spread(training: Training) -> float:
    """How far the truth may lie from the prediction of the activations, as a factor."""
    if training.sample_bytes is not None:
        return 1.35
    if training.shape is None:
        return 3.0
    return {"diffusion": 2.0, "detector": 1.5}.get(training.shape.kind, 1.45)


def _confidence(training: Training) -> float:
    return 0.3 if training.shape is None else 0.75
