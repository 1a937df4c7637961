"""What one training step does, from the shape of the model: multiplications, numbers moved, parameters kept.

Transformers are counted from their layers, pictures from published counts (models.csv). Where nobody has counted, a
rule fitted to timm's table of 1,442 models stands in (nine in ten within a factor of 2.1).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from anygpu.plan import activations
from anygpu.plan.activations import Numbers
from anygpu.plan.memory import Training
from anygpu.plan.models import MILLION, Shape
from anygpu.plan.throughput import TRAINING, Work

PICTURE = 224**2
DETECTED = 1280 * 800  # pixels of the picture that detectors are counted on
HIDDEN_IN_A_LAYER = 64  # units of width for every layer, in transformers of the usual shape
# A layer's kernels, forward and back, one call at a time: a short sequence on an A100 takes 44 ms for 16 layers and 90
# for 32; with LoRA 97 for 24, 142 for 32, 191 for 40 (Lightning-AI/litgpt, tutorials/resource-tables.md).
LAYER_S, ADAPTED_LAYER_S = 0.0028, 0.0045
ADAPTED = 0.005  # of the parameters are trained with adapters
READ_ONLY = 6 / 16  # of a trained parameter's bytes: a frozen one is read forward and back
UNPACKED = (
    20 / 16
)  # more where it is kept in few bits: the same page has 79 ms more for 7B parameters, 191 for 13B
WORDS = 16  # how often a sample uses a parameter of a network of which nothing else is known
UNITS = 256  # parameters to an output of such a network's layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One sample's forward pass, and the factor the truth should lie within. `convolves`: 32 bits run on TF32 units."""

    gmacs: float
    mega_activations: float
    factor: float = 1.0
    because: str = ""
    layers: int = 0
    convolves: bool = False


def step(training: Training, *, text: bool = False) -> tuple[Work, Sized]:
    """Of one GPU's batch, and what it rests on. `text`: an unknown model reads the sequence."""
    sized = _sized(training, text=text)
    adapted = bool(training.adapters)
    wide = "tf32" if sized.convolves else "fp32"
    half = "bf16" if training.precision == "fp8" else training.precision
    packed = training.adapters in ("qlora", "lora-8bit")
    share = ADAPTED + READ_ONLY + packed * UNPACKED if adapted else 1.0
    work = Work(
        batch=training.batch,
        gmacs=sized.gmacs,
        mega_activations=sized.mega_activations,
        mega_parameters=training.parameters * share / MILLION,
        precision=half if training.half else wide,
        passes=TRAINING - adapted + training.recomputes,  # frozen matrices need no gradient of their own
        least_s=sized.layers * (ADAPTED_LAYER_S if adapted else LAYER_S),
    )
    return work, sized


def _sized(training: Training, *, text: bool) -> Sized:
    shape = training.shape
    if shape is not None:
        return _BY_KIND[shape.kind](shape, training)
    if text:
        return _usual_text(training)
    return _unknown_picture(training) if training.pixels else _unknown(training)


def _text(shape: Shape, training: Training) -> Sized:
    """The head that says the next word is as wide as the vocabulary."""
    words = shape.vocab * shape.hidden if shape.kind in ("decoder", "gated") else 0
    return _transformer(shape, training.sequence, body=_body(shape), head=words)


def _body(shape: Shape) -> float:
    """Multiplications a token. Shared keys and values have fewer than full attention: the parameters say so."""
    matrices = 3 if shape.kind == "gated" else 2
    full = shape.layers * (4 * shape.hidden**2 + matrices * shape.hidden * shape.inner)
    without_words = shape.parameters - shape.vocab * shape.hidden
    return without_words if 0.7 * full <= without_words < full else full


def _patches(shape: Shape, training: Training) -> Sized:
    tokens = _pixels(shape, training) // shape.vocab**2 + 1  # `vocab` holds the patch
    body = shape.layers * (4 * shape.hidden**2 + 2 * shape.hidden * shape.inner)
    return _transformer(shape, tokens, body=body, head=3 * shape.vocab**2 * shape.hidden)


def _transformer(shape: Shape, tokens: int, *, body: float, head: float) -> Sized:
    scores = shape.layers * 2 * tokens * shape.hidden
    wide = 2 if shape.kind == "gated" else 1
    outputs = shape.layers * (6 * shape.hidden + wide * shape.inner)  # scores of pairs are fused away today
    return Sized(
        gmacs=(body + scores + head) * tokens / 1e9,
        mega_activations=outputs * tokens / MILLION,
        layers=shape.layers,
    )


def _usual_text(training: Training) -> Sized:
    """A layer for every 64 units of width, each with 12 matrices of it."""
    parameters, tokens = training.parameters, training.sequence
    units = max(1.0, (parameters * HIDDEN_IN_A_LAYER / 12) ** (1 / 3))
    layers = parameters / (12 * units**2)
    return Sized(
        gmacs=(parameters + layers * 2 * tokens * units) * tokens / 1e9,
        mega_activations=layers * 10 * units * tokens / MILLION,
        factor=1.5,
        because="its shape is taken to be usual",
        layers=round(layers),
    )


def _picture(shape: Shape, training: Training) -> Sized:
    larger = _pixels(shape, training) / shape.size**2
    counted = bool(shape.gmacs)
    return Sized(
        gmacs=(shape.gmacs or _by_rule(shape)) * larger,
        mega_activations=shape.activations * larger,
        factor=1.0 if counted else 2.1,
        because="" if counted else "its multiplications by a rule",
        convolves=True,
    )


def _by_rule(shape: Shape) -> float:
    """Least squares over the logarithms of timm's table, at 224 x 224."""
    larger = shape.size**2 / PICTURE
    millions = shape.parameters / MILLION
    return float(0.078 * (shape.activations / larger) ** 0.465 * millions**0.819 * larger)


def _detector(shape: Shape, training: Training) -> Sized:
    depth = 101 if "101" in shape.name else 50
    heads: activations.Heads = "one-stage" if "retina" in shape.name else "two-stage"
    pixels = training.pixels or DETECTED
    kept = activations.detector(depth, pixels, heads, Numbers(element=1)) / activations.BATCH_NORM_COPIES
    return Sized(
        gmacs=shape.gmacs * pixels / DETECTED,
        mega_activations=kept / MILLION,
        factor=1.5,
        because="its pictures differ in size",
        convolves=True,
    )


def _diffusion(shape: Shape, training: Training) -> Sized:
    """339 for Stable Diffusion 1's UNet (Kim et al., BK-SDM, 2023), and the picture's way into it, forward only."""
    larger = _pixels(shape, training) / 512**2 * sqrt(shape.parameters / 1.07e9)
    return Sized(
        gmacs=530 * larger,
        mega_activations=350 * larger,
        factor=2.0,
        because="diffusion models by their size",
        convolves=True,
    )


def _unknown_picture(training: Training) -> Sized:
    """What is usual in timm's table for so many parameters."""
    larger, millions = training.pixels / PICTURE, training.parameters / MILLION
    return Sized(
        gmacs=0.174 * millions * larger,
        mega_activations=2.9 * sqrt(millions) * larger,
        factor=4.0,
        because="only its parameters are known",
        convolves=True,
    )


def _unknown(training: Training) -> Sized:
    uses = training.parameters * WORDS
    return Sized(
        gmacs=uses / 1e9,
        mega_activations=uses / UNITS / MILLION,
        factor=4.0,
        because="only its parameters are known",
    )


def _pixels(shape: Shape, training: Training) -> int:
    return training.pixels or shape.size**2


_BY_KIND: dict[str, Callable[[Shape, Training], Sized]] = {
    "encoder": _text,
    "decoder": _text,
    "gated": _text,
    "vit": _patches,
    "conv": _picture,
    "yolo": _picture,
    "detector": _detector,
    "diffusion": _diffusion,
}
