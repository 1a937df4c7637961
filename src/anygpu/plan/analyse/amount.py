"""How much a script has to do: one step of it, how many there are, and what had to be assumed."""

from collections.abc import Iterator
from typing import get_args

from anygpu.plan import models
from anygpu.plan.analyse import datasets
from anygpu.plan.analyse.findings import GUESS, LIKELY, Analysis, Found
from anygpu.plan.effort import Doubt, Effort, Sharing, reference
from anygpu.plan.memory import Precision, Training
from anygpu.plan.throughput import FIXED_S, Work, pace
from anygpu.plan.work import Sized, step

USUAL_SAMPLES = 50_000
TEXT = ("encoder", "decoder", "gated")
PICTURES = ("conv", "vit", "yolo", "detector")
A_SCRIPT = Doubt(what="data, evaluation and saving are not counted", factor=2.0)
NO_SAMPLES = Doubt(what=f"{USUAL_SAMPLES:,} samples assumed", factor=10.0)
NO_BATCH = Doubt(what="the batch is not known", factor=4.0)
SHORTER = Doubt(what="sentences may be shorter than the longest", factor=3.0)
NO_LENGTH = Doubt(what="the length of the sentences is not known", factor=3.0)
NO_SIZE = Doubt(what="the size of the pictures is not known", factor=2.0)
NO_PRECISION = Doubt(what="32 bits assumed", factor=1.5)
SMALL = Doubt(what="small steps wait for the program around them", factor=3.0)
ON_CPU = Doubt(what="no GPU is used", factor=5.0)
_SMALL_PICTURES = {
    "mnist": 28,
    "fashionmnist": 28,
    "kmnist": 28,
    "cifar10": 32,
    "cifar100": 32,
    "svhn": 32,
    "stl10": 96,
}


def effort(read: Analysis) -> Effort | None:
    """None where the model's size or the number of steps is not known, or what it learns from takes its own time."""
    batches = _batches(read)
    if batches is None or read.parameters is None or read.environment is not None:
        return None
    training = as_training(read)
    work, sized = step(training, text=read.sequence_length is not None)
    doubts = (A_SCRIPT, *_of_the_step(read, training, work, sized), *_of_the_amount(read))
    return Effort(work=work, batches=batches, sharing=_sharing(read), doubts=doubts)


def _batches(read: Analysis) -> float | None:
    """A step that is counted as such takes all the batches it adds up; epochs go through the samples."""
    if read.steps is not None:
        return float(read.steps.value * (read.accumulation.value if read.accumulation is not None else 1))
    if read.epochs is None or read.batch_size is None:
        return None
    samples = read.samples.value if read.samples is not None else USUAL_SAMPLES
    return max(1.0, read.epochs.value * samples / read.batch_size.value)


def _sharing(read: Analysis) -> Sharing:
    """Epochs are shared by all GPUs; of a number of steps each takes every one, unless the code divides it."""
    divided = read.divided.value if read.divided is not None else ""
    if divided == "batch" or (read.multi_gpu is not None and read.multi_gpu.value == "dp"):
        return "batch"
    return "batches" if read.steps is None or divided == "accumulation" else "nothing"


def _of_the_step(read: Analysis, training: Training, work: Work, sized: Sized) -> Iterator[Doubt]:
    kind = training.shape.kind if training.shape is not None else ""
    if sized.because:
        yield Doubt(what=sized.because, factor=sized.factor)
    if kind in TEXT and read.sequence_length is None:
        yield NO_LENGTH
    elif kind == "encoder" or (kind in TEXT and training.adapters):
        yield SHORTER
    if kind in PICTURES and not training.pixels:
        yield NO_SIZE
    if read.precision is None:
        yield NO_PRECISION
    if pace(work, reference()).step_s < 2 * FIXED_S:
        yield SMALL
    if read.needs_gpu is not None and not read.needs_gpu.value:
        yield ON_CPU


def _of_the_amount(read: Analysis) -> Iterator[Doubt]:
    if read.steps is None and read.samples is None:
        yield NO_SAMPLES
    if read.steps is not None and read.batch_size is None:
        yield NO_BATCH
    counted = (("parameters", read.parameters), ("number of steps", read.steps or read.epochs))
    for what, found in counted:
        yield from _unsure(what, found)


def _unsure(what: str, found: Found[int] | Found[float] | None) -> Iterator[Doubt]:
    """What stands in the code is taken at its word."""
    if found is not None and found.confidence < LIKELY:
        yield Doubt(what=f"the {what} may differ", factor=1.5 if found.confidence >= GUESS else 3.0)


def as_training(read: Analysis) -> Training:
    shape = models.lookup(read.model.value) if read.model is not None else None
    side = read.image_size.value if read.image_size is not None else _native_side(read)
    precision: Precision = "fp32"
    if read.precision is not None and read.precision.value in get_args(Precision):
        precision = read.precision.value  # type: ignore[assignment]
    usual = 1024 if shape is not None and shape.kind in ("decoder", "gated") else 256
    usual = (
        1500 if shape is not None and shape.name.startswith("whisper") else usual
    )  # half a minute of sound
    return Training(
        parameters=read.parameters.value if read.parameters is not None else 0,
        shape=shape,
        batch=read.batch_size.value if read.batch_size is not None else 16,
        precision=precision,
        pure=read.half_weights is not None and precision != "fp32" and read.adapters is None,
        optimiser=read.optimiser.value if read.optimiser is not None else "adamw",
        adapters=read.adapters.value if read.adapters is not None else "",
        recomputes=read.recomputes is not None,
        sequence=read.sequence_length.value if read.sequence_length is not None else usual,
        pixels=side * side,
        shards=_shards(read),
    )


def _native_side(read: Analysis) -> int:
    """Small pictures that nothing enlarges."""
    row = datasets.known(read.dataset.value) if read.dataset is not None else None
    return _SMALL_PICTURES.get(row.name, 0) if row is not None else 0


def _shards(read: Analysis) -> int:
    shared = read.multi_gpu is not None and read.multi_gpu.value in ("fsdp", "deepspeed")
    return read.gpus.value if shared and read.gpus is not None else 1
