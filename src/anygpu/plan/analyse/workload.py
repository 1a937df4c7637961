"""From what was read to what a planner needs: duration, memory, interruptibility, storage, cost."""

import re
from typing import Any

from anygpu.plan import memory
from anygpu.plan.analyse.amount import USUAL_SAMPLES, as_training, effort
from anygpu.plan.analyse.findings import BLIND, GUESS, LIKELY, VAGUE, Analysis, Found, WorkloadCharacteristics
from anygpu.plan.effort import Effort, reference
from anygpu.plan.memory import Estimate

HOUR_S = 3600.0
UNKNOWN_HOURS = 2.0
BLIND_FACTOR = 10.0
WIDE = 5.0  # an interval of more than this factor is no ground to refuse a place
REFERENCE_DOLLARS_PER_HOUR = 2.0
_ZERO: Found[Any] = Found(value=0, confidence=VAGUE, because="not found")


def characteristics(read: Analysis) -> WorkloadCharacteristics:
    todo = effort(read)
    hours, span = duration(read, todo)
    needed = peak_memory(read)
    return WorkloadCharacteristics(
        duration_hours=hours,
        duration_range_hours=span,
        gpu_memory_gb=_memory_found(read, needed),
        gpu_memory_range_gb=(needed.low_gb, needed.high_gb) if needed is not None else (0.0, 0.0),
        interruptible=_interruptible(read),
        needs_persistent_storage=_storage(read),
        dataset_size_gb=read.dataset_gb or _ZERO,
        checkpoint_frequency_steps=_frequency(read),
        estimated_cost_tolerance=_tolerance(hours, _gpus(read)),
        gpus=_gpus(read),
        effort=todo,
    )


def peak_memory(read: Analysis) -> Estimate | None:
    """Predicted peak of one GPU, where it trains on one."""
    if read.parameters is None or (read.needs_gpu is not None and not read.needs_gpu.value):
        return None
    return memory.estimate(as_training(read))


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


def duration(read: Analysis, found: Effort | None) -> tuple[Found[float], tuple[float, float]]:
    """Hours on as many of the reference as the code asks for, and between which they should lie."""
    steps = total_steps(read)
    if steps is None or read.parameters is None or found is None:
        nothing = Found(value=UNKNOWN_HOURS, confidence=BLIND, because=_why_unknown(read))
        return nothing, (UNKNOWN_HOURS / BLIND_FACTOR, UNKNOWN_HOURS * BLIND_FACTOR)
    span = found.on(reference(), gpus=_gpus(read))
    wide = span.high > WIDE * span.expected
    sure = min(steps.confidence, read.parameters.confidence, VAGUE if wide else GUESS)
    because = "; ".join((f"{found.batches:,.0f} batches of {found.work.batch}", *_assumed(found)))
    hours = Found(
        value=span.expected / HOUR_S, file=steps.file, line=steps.line, confidence=sure, because=because
    )
    return hours, (span.low / HOUR_S, span.high / HOUR_S)


def _why_unknown(read: Analysis) -> str:
    if read.environment is not None:
        return f"how long {read.environment.value} takes is not known; a usual run"
    return "not enough is known; a usual run"


def _assumed(found: Effort) -> list[str]:
    return [doubt.what for doubt in found.doubts]


def _gpus(read: Analysis) -> int:
    return read.gpus.value if read.gpus is not None and read.multi_gpu is not None else 1


def _interruptible(read: Analysis) -> Found[bool]:
    resumes = read.resuming is not None and read.resuming.value
    saves = read.checkpointing is not None and read.checkpointing.value
    at: Found[Any] = (read.resuming or read.checkpointing) or _ZERO
    both = [f.confidence for f in (read.resuming, read.checkpointing) if f is not None]
    against = [f.confidence for f in (read.resuming, read.checkpointing) if f is not None and not f.value]
    sure = max(against) if against else min(both, default=VAGUE)
    because = "saves while it trains and can go on" if resumes and saves else "would start from zero"
    return Found(value=resumes and saves, file=at.file, line=at.line, confidence=sure, because=because)


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
    if read.checkpointing is not None and not read.checkpointing.value:
        return Found(value=0, confidence=read.checkpointing.confidence, because="never")
    if every is None:
        return Found(value=0, confidence=VAGUE, because="not known")
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


def _tolerance(hours: Found[float], gpus: int) -> Found[float]:
    """No code says what its author would pay: twice the on-demand price of the expected time."""
    dollars = round(2 * REFERENCE_DOLLARS_PER_HOUR * gpus * hours.value, 2)
    return Found(value=dollars, confidence=VAGUE, because="twice the expected time at a usual price")
