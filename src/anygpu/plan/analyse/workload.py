"""From what was read to what a planner needs: duration, memory, interruptibility, storage, cost."""

import re
from typing import Any, get_args

from anygpu.plan import memory, models
from anygpu.plan.analyse import datasets
from anygpu.plan.analyse.findings import BLIND, GUESS, LIKELY, VAGUE, Analysis, Found, WorkloadCharacteristics
from anygpu.plan.memory import Estimate, Precision, Training

REFERENCE_FLOPS = 50e12  # what an A100 gives a usual script: a sixth of its peak
FP32_FLOPS = 15e12
UNKNOWN_HOURS = 2.0
REFERENCE_DOLLARS_PER_HOUR = 2.0
USUAL_SAMPLES = 50_000
_SMALL_PICTURES = {
    "mnist": 28,
    "fashionmnist": 28,
    "kmnist": 28,
    "cifar10": 32,
    "cifar100": 32,
    "svhn": 32,
    "stl10": 96,
}
_ZERO: Found[Any] = Found(value=0, confidence=VAGUE, because="not found")


def characteristics(read: Analysis) -> WorkloadCharacteristics:
    hours = duration(read)
    needed = peak_memory(read)
    return WorkloadCharacteristics(
        duration_hours=hours,
        duration_range_hours=_range(hours),
        gpu_memory_gb=_memory_found(read, needed),
        gpu_memory_range_gb=(needed.low_gb, needed.high_gb) if needed is not None else (0.0, 0.0),
        interruptible=_interruptible(read),
        needs_persistent_storage=_storage(read),
        dataset_size_gb=read.dataset_gb or _ZERO,
        checkpoint_frequency_steps=_frequency(read),
        estimated_cost_tolerance=_tolerance(hours),
        gpus=read.gpus.value if read.gpus is not None else 1,
    )


def peak_memory(read: Analysis) -> Estimate | None:
    """Predicted peak of one GPU, where it trains on one."""
    if read.parameters is None or (read.needs_gpu is not None and not read.needs_gpu.value):
        return None
    return memory.estimate(as_training(read))


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


def _memory_found(read: Analysis, needed: Estimate | None) -> Found[float]:
    if needed is None:
        return Found(value=0.0, confidence=VAGUE, because="no GPU, or the model's size is not known")
    inputs = [f.confidence for f in (read.parameters, read.batch_size) if f is not None]
    sure = min([needed.confidence, *inputs] if read.batch_size is not None else [needed.confidence, VAGUE])
    at = read.parameters
    return Found(
        value=round(needed.peak_gb, 2),
        file=at.file if at is not None else "",
        line=at.line if at is not None else 0,
        confidence=sure,
        because=needed.sentence(),
    )


def total_steps(read: Analysis) -> Found[int] | None:
    """Steps as asked, or epochs of the data set's samples."""
    if read.steps is not None:
        return read.steps
    if read.epochs is None or read.batch_size is None:
        return None
    samples = read.samples.value if read.samples is not None else USUAL_SAMPLES
    each = read.batch_size.value * (read.gpus.value if read.gpus is not None else 1)
    sure = min(
        read.epochs.confidence, read.batch_size.confidence, LIKELY if read.samples is not None else VAGUE
    )
    steps = max(1, int(read.epochs.value * samples / each))
    return Found(value=steps, file=read.epochs.file, line=read.epochs.line, confidence=sure)


def duration(read: Analysis) -> Found[float]:
    """Hours on one A100 from arithmetic alone; the planner's own history is better where there is any."""
    steps = total_steps(read)
    if steps is None or read.parameters is None:
        return Found(value=UNKNOWN_HOURS, confidence=BLIND, because="not enough is known; a usual run")
    half = read.precision is not None and read.precision.value != "fp32"
    rate = REFERENCE_FLOPS if half else FP32_FLOPS
    batches = steps.value * _batches_a_step(read)
    hours = batches * step_flops(read) / rate / 3600
    least = batches * 0.01 / 3600  # no step of a script takes less than some ten milliseconds
    sure = min(steps.confidence, read.parameters.confidence, GUESS)
    because = f"{steps.value:,} steps on an A100"
    return Found(value=max(hours, least), file=steps.file, line=steps.line, confidence=sure, because=because)


def _batches_a_step(read: Analysis) -> int:
    """A step that is counted as such takes all the batches it adds up; epochs count their batches already."""
    return read.accumulation.value if read.steps is not None and read.accumulation is not None else 1


def step_flops(read: Analysis) -> float:
    """Forward and backward: six per parameter and token; for images by what is usual for their size."""
    training = as_training(read)
    shape = training.shape
    if shape is not None and shape.kind in ("encoder", "decoder", "gated"):
        return 6.0 * training.parameters * training.sequence * training.batch
    if shape is not None and shape.kind in ("conv", "vit", "yolo", "detector"):
        pixels = training.pixels or (shape.size or 1000) ** 2
        return 3 * 2 * 160.0 * training.parameters * pixels / 224**2 * training.batch
    words = training.sequence if read.sequence_length is not None else 16
    return 6.0 * training.parameters * words * training.batch


def _range(hours: Found[float]) -> tuple[float, float]:
    """Wide enough to be true: a factor of three when much is known, of ten when little."""
    factor = 3.0 if hours.confidence >= GUESS else 5.0 if hours.confidence > VAGUE else 10.0
    return hours.value / factor, hours.value * factor


def _interruptible(read: Analysis) -> Found[bool]:
    resumes = read.resuming is not None and read.resuming.value
    saves = read.checkpointing is not None and read.checkpointing.value
    at: Found[Any] = (read.resuming or read.checkpointing) or _ZERO
    because = "saves while it trains and can go on" if resumes and saves else "would start from zero"
    return Found(
        value=resumes and saves, file=at.file, line=at.line, confidence=at.confidence, because=because
    )


def _storage(read: Analysis) -> Found[bool]:
    large = read.dataset_gb is not None and read.dataset_gb.value > 20
    saves = read.checkpointing is not None and read.checkpointing.value
    at: Found[Any] = (read.dataset_gb if large else read.checkpointing) or _ZERO
    because = (
        "the data set is large"
        if large
        else "checkpoints must outlive the machine"
        if saves
        else "nothing is kept"
    )
    return Found(value=large or saves, file=at.file, line=at.line, confidence=at.confidence, because=because)


def _frequency(read: Analysis) -> Found[int]:
    every = read.checkpoint_every
    if every is None or (read.checkpointing is not None and not read.checkpointing.value):
        return Found(value=0, confidence=VAGUE if every is None else LIKELY, because="never")
    number = re.match(r"(\d+) steps", every.value)
    if number:
        return Found(value=int(number[1]), file=every.file, line=every.line, confidence=every.confidence)
    if every.value == "step":
        return Found(value=1, file=every.file, line=every.line, confidence=every.confidence)
    return Found(
        value=_epoch_steps(read), file=every.file, line=every.line, confidence=GUESS, because=every.value
    )


def _epoch_steps(read: Analysis) -> int:
    samples = read.samples.value if read.samples is not None else USUAL_SAMPLES
    return max(1, samples // (read.batch_size.value if read.batch_size is not None else 32))


def _tolerance(hours: Found[float]) -> Found[float]:
    """No code says what its author would pay: twice the on-demand price of the expected time."""
    dollars = round(2 * REFERENCE_DOLLARS_PER_HOUR * hours.value, 2)
    return Found(value=dollars, confidence=VAGUE, because="twice the expected time at a usual price")
