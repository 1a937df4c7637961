"""Derive from an analysis what the planner needs: computing work, duration, memory, storage."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from anygpu.plan.analyse.fields import public_datasets
from anygpu.plan.analyse.findings import (
    BLIND,
    GUESS,
    LIKELY,
    VAGUE,
    Analysis,
    CodeFinding,
    WorkloadCharacteristics,
)
from anygpu.plan.hardware import models
from anygpu.plan.predict import memory
from anygpu.plan.predict.memory import MemoryEstimate, Precision, TrainingSetup
from anygpu.plan.predict.step_time import (
    FIXED_STEP_S,
    Assumption,
    Effort,
    SampleCost,
    StepWork,
    WorkSharing,
    reference_gpu,
    step_duration,
    step_work,
)

DEFAULT_SAMPLES = 50_000
TEXT_KINDS = ("encoder", "decoder", "gated")
IMAGE_KINDS = ("conv", "vit", "yolo", "detector")
SCRIPT_OVERHEAD = Assumption(what="time for loading data, evaluating and saving is not included", factor=2.0)
UNKNOWN_SAMPLES = Assumption(what=f"{DEFAULT_SAMPLES:,} samples assumed", factor=10.0)
UNKNOWN_BATCH = Assumption(what="the batch size is not known", factor=4.0)
SHORTER_SEQUENCES = Assumption(what="sequences may be shorter than the maximum length", factor=3.0)
UNKNOWN_SEQUENCE = Assumption(what="the length of the sequences is not known", factor=3.0)
UNKNOWN_IMAGE_SIZE = Assumption(what="the size of the images is not known", factor=2.0)
UNKNOWN_PRECISION = Assumption(what="32-bit precision assumed", factor=1.5)
SMALL_STEPS = Assumption(what="steps are so short that overhead dominates", factor=3.0)
ON_CPU = Assumption(what="no GPU is used", factor=5.0)
_SMALL_IMAGES = {
    "mnist": 28,
    "fashionmnist": 28,
    "kmnist": 28,
    "cifar10": 32,
    "cifar100": 32,
    "svhn": 32,
    "stl10": 96,
}


def estimate_effort(analysis: Analysis) -> Effort | None:
    """Estimate the computing work of a whole training.

    Return None if the model's size or the number of steps is unknown. Also return None for reinforcement
    learning, whose environment takes time that cannot be predicted.
    """
    batches = _batches(analysis)
    if batches is None or analysis.parameters is None or analysis.environment is not None:
        return None
    training = training_setup(analysis)
    work, sized = step_work(training, text=analysis.sequence_length is not None)
    work = replace(work, gradient_mb=work.gradient_mb * _exchanges_per_batch(analysis))
    doubts = (
        SCRIPT_OVERHEAD,
        *_step_assumptions(analysis, training, work, sized),
        *_length_assumptions(analysis),
    )
    return Effort(work=work, batches=batches, sharing=_sharing(analysis), assumptions=doubts)


def _batches(analysis: Analysis) -> float | None:
    """Return how many batches are processed in total, each of the size for one GPU; None if unknown.

    It is steps times gradient accumulation, or epochs times batches per epoch.
    """
    if analysis.steps is not None:
        return float(
            analysis.steps.value * (analysis.accumulation.value if analysis.accumulation is not None else 1)
        )
    if analysis.epochs is None or analysis.batch_size is None:
        return None
    samples = analysis.samples.value if analysis.samples is not None else DEFAULT_SAMPLES
    return max(1.0, analysis.epochs.value * samples / analysis.batch_size.value)


def _exchanges_per_batch(analysis: Analysis) -> float:
    """Return how often the gradients are exchanged for one batch.

    With gradient accumulation, they are exchanged once for several batches. Sharded training (FSDP, ZeRO 3) also
    collects the weights twice, which is half as much again.
    """
    sharded = analysis.multi_gpu is not None and analysis.multi_gpu.value in ("fsdp", "deepspeed")
    return (1.5 if sharded else 1.0) / (
        analysis.accumulation.value if analysis.accumulation is not None else 1
    )


def _sharing(analysis: Analysis) -> WorkSharing:
    """Return how the work is divided among the GPUs.

    A training that is given in epochs is divided among all GPUs. If it is given in steps, each GPU does every step,
    unless the code divides the batch size or the gradient accumulation.
    """
    divided = analysis.split_across_gpus.value if analysis.split_across_gpus is not None else ""
    if divided == "batch" or (analysis.multi_gpu is not None and analysis.multi_gpu.value == "dp"):
        return "batch"
    return "batches" if analysis.steps is None or divided == "accumulation" else "nothing"


def _step_assumptions(
    analysis: Analysis, training: TrainingSetup, work: StepWork, sized: SampleCost
) -> Iterator[Assumption]:
    kind = training.shape.kind if training.shape is not None else ""
    if sized.because:
        yield Assumption(what=sized.because, factor=sized.factor)
    if kind in TEXT_KINDS and analysis.sequence_length is None:
        yield UNKNOWN_SEQUENCE
    elif kind == "encoder" or (kind in TEXT_KINDS and training.adapters):
        yield SHORTER_SEQUENCES
    if kind in IMAGE_KINDS and not training.pixels:
        yield UNKNOWN_IMAGE_SIZE
    if analysis.precision is None:
        yield UNKNOWN_PRECISION
    if step_duration(work, reference_gpu()).step_s < 2 * FIXED_STEP_S:
        yield SMALL_STEPS
    if analysis.needs_gpu is not None and not analysis.needs_gpu.value:
        yield ON_CPU


def _length_assumptions(analysis: Analysis) -> Iterator[Assumption]:
    if analysis.steps is None and analysis.samples is None:
        yield UNKNOWN_SAMPLES
    if analysis.steps is not None and analysis.batch_size is None:
        yield UNKNOWN_BATCH
    counted = (("parameters", analysis.parameters), ("number of steps", analysis.steps or analysis.epochs))
    for what, found in counted:
        yield from _unsure_count(what, found)


def _unsure_count(what: str, found: CodeFinding[int] | CodeFinding[float] | None) -> Iterator[Assumption]:
    """Yield an assumption for the plan if a number, such as that of the epochs, has low confidence."""
    if found is not None and found.confidence < LIKELY:
        yield Assumption(what=f"the {what} may be wrong", factor=1.5 if found.confidence >= GUESS else 3.0)


def training_setup(analysis: Analysis) -> TrainingSetup:
    shape = models.find_model(analysis.model.value) if analysis.model is not None else None
    side = analysis.image_size.value if analysis.image_size is not None else _native_image_side(analysis)
    precision: Precision = "fp32"
    if analysis.precision is not None and analysis.precision.value in get_args(Precision):
        precision = analysis.precision.value  # type: ignore[assignment]
    usual = 1024 if shape is not None and shape.kind in ("decoder", "gated") else 256
    usual = (
        1500 if shape is not None and shape.name.startswith("whisper") else usual
    )  # half a minute of sound
    return TrainingSetup(
        parameters=analysis.parameters.value if analysis.parameters is not None else 0,
        shape=shape,
        batch=analysis.batch_size.value if analysis.batch_size is not None else 16,
        precision=precision,
        half_weights=analysis.half_weights is not None and precision != "fp32" and analysis.adapters is None,
        optimiser=analysis.optimiser.value if analysis.optimiser is not None else "adamw",
        adapters=analysis.adapters.value if analysis.adapters is not None else "",
        recomputes=analysis.recomputes is not None,
        sequence=analysis.sequence_length.value if analysis.sequence_length is not None else usual,
        pixels=side * side,
        shards=_shards(analysis),
    )


def _native_image_side(analysis: Analysis) -> int:
    """Return the side length in pixels of the images of a data set such as CIFAR-10; 0 if unknown."""
    row = public_datasets.find_dataset(analysis.dataset.value) if analysis.dataset is not None else None
    return _SMALL_IMAGES.get(row.name, 0) if row is not None else 0


def _shards(analysis: Analysis) -> int:
    shared = analysis.multi_gpu is not None and analysis.multi_gpu.value in ("fsdp", "deepspeed")
    return analysis.gpus.value if shared and analysis.gpus is not None else 1


HOUR_S = 3600.0
UNKNOWN_HOURS = 2.0
BLIND_FACTOR = 10.0
WIDE_RATIO = 5.0  # above this ratio of high end to expected value, the confidence is VAGUE
REFERENCE_DOLLARS_PER_HOUR = 2.0
_ZERO: CodeFinding[Any] = CodeFinding(value=0, confidence=VAGUE, because="not found")


def characteristics(analysis: Analysis) -> WorkloadCharacteristics:
    todo = estimate_effort(analysis)
    hours, span = estimate_duration(analysis, todo)
    needed = peak_memory(analysis)
    return WorkloadCharacteristics(
        duration_hours=hours,
        duration_range_hours=span,
        gpu_memory_gb=_memory_finding(analysis, needed),
        gpu_memory_range_gb=(needed.low_gb, needed.high_gb) if needed is not None else (0.0, 0.0),
        interruptible=_interruptible(analysis),
        needs_persistent_storage=_storage(analysis),
        dataset_size_gb=analysis.dataset_gb or _ZERO,
        checkpoint_frequency_steps=_frequency(analysis),
        estimated_cost_tolerance=_tolerance(hours, _gpus(analysis)),
        gpus=_gpus(analysis),
        effort=todo,
    )


def peak_memory(analysis: Analysis) -> MemoryEstimate | None:
    """Estimate the peak memory of one GPU.

    Return None for a job without a GPU or with a model of unknown size.
    """
    if analysis.parameters is None or (analysis.needs_gpu is not None and not analysis.needs_gpu.value):
        return None
    setup = training_setup(analysis)
    if _sharing(analysis) == "batch" and setup.batch > 1:
        setup = replace(setup, batch=max(1, -(-setup.batch // _gpus(analysis))))
    return memory.estimate_memory(setup)


def _memory_finding(analysis: Analysis, needed: MemoryEstimate | None) -> CodeFinding[float]:
    if needed is None:
        return CodeFinding(value=0.0, confidence=VAGUE, because="no GPU, or the model's size is not known")
    inputs = [f.confidence for f in (analysis.parameters, analysis.batch_size) if f is not None]
    sure = min(
        [needed.confidence, *inputs] if analysis.batch_size is not None else [needed.confidence, VAGUE]
    )
    at = analysis.parameters
    return CodeFinding(
        value=round(needed.peak_gb, 2),
        file=at.file if at is not None else "",
        line=at.line if at is not None else 0,
        confidence=sure,
        because=needed.describe(),
    )


def total_steps(analysis: Analysis) -> CodeFinding[int] | None:
    """Return the number of steps of the training; None if unknown.

    It is set in the code, or computed from epochs, samples and batch size.
    """
    if analysis.steps is not None:
        return analysis.steps
    if analysis.epochs is None or analysis.batch_size is None:
        return None
    samples = analysis.samples.value if analysis.samples is not None else DEFAULT_SAMPLES
    each = analysis.batch_size.value * (analysis.gpus.value if analysis.gpus is not None else 1)
    sure = min(
        analysis.epochs.confidence,
        analysis.batch_size.confidence,
        LIKELY if analysis.samples is not None else VAGUE,
    )
    steps = max(1, int(analysis.epochs.value * samples / each))
    return CodeFinding(value=steps, file=analysis.epochs.file, line=analysis.epochs.line, confidence=sure)


def estimate_duration(
    analysis: Analysis, found: Effort | None
) -> tuple[CodeFinding[float], tuple[float, float]]:
    """Return the expected hours of training on A100 GPUs (`reference_gpu`), and a lower and an upper bound.

    The hours are for as many GPUs as the code uses.
    """
    steps = total_steps(analysis)
    if steps is None or analysis.parameters is None or found is None:
        nothing = CodeFinding(value=UNKNOWN_HOURS, confidence=BLIND, because=_why_unknown(analysis))
        return nothing, (UNKNOWN_HOURS / BLIND_FACTOR, UNKNOWN_HOURS * BLIND_FACTOR)
    span = found.duration_on(reference_gpu(), gpus=_gpus(analysis))
    wide = span.high > WIDE_RATIO * span.expected
    sure = min(steps.confidence, analysis.parameters.confidence, VAGUE if wide else GUESS)
    because = "; ".join(
        (f"{found.batches:,.0f} batches of {found.work.batch} samples", *_assumption_texts(found))
    )
    hours = CodeFinding(
        value=span.expected / HOUR_S, file=steps.file, line=steps.line, confidence=sure, because=because
    )
    return hours, (span.low / HOUR_S, span.high / HOUR_S)


def _why_unknown(analysis: Analysis) -> str:
    if analysis.environment is not None:
        return f"how long {analysis.environment.value} takes is not known; a typical duration is assumed"
    return "too little is known about the training; a typical duration is assumed"


def _assumption_texts(found: Effort) -> list[str]:
    return [doubt.what for doubt in found.assumptions]


def _gpus(analysis: Analysis) -> int:
    return analysis.gpus.value if analysis.gpus is not None and analysis.multi_gpu is not None else 1


def _interruptible(analysis: Analysis) -> CodeFinding[bool]:
    resumes = analysis.resuming is not None and analysis.resuming.value
    saves = analysis.checkpointing is not None and analysis.checkpointing.value
    at: CodeFinding[Any] = (analysis.resuming or analysis.checkpointing) or _ZERO
    both = [f.confidence for f in (analysis.resuming, analysis.checkpointing) if f is not None]
    against = [
        f.confidence for f in (analysis.resuming, analysis.checkpointing) if f is not None and not f.value
    ]
    sure = max(against) if against else min(both, default=VAGUE)
    because = "saves during training and can resume" if resumes and saves else "would start from zero"
    return CodeFinding(value=resumes and saves, file=at.file, line=at.line, confidence=sure, because=because)


def _storage(analysis: Analysis) -> CodeFinding[bool]:
    large = analysis.dataset_gb is not None and analysis.dataset_gb.value > 20
    saves = analysis.checkpointing is not None and analysis.checkpointing.value
    at: CodeFinding[Any] = (analysis.dataset_gb if large else analysis.checkpointing) or _ZERO
    because = (
        "the data set is large"
        if large
        else "checkpoints must be kept when the machine ends"
        if saves
        else "nothing has to be kept"
    )
    return CodeFinding(
        value=large or saves, file=at.file, line=at.line, confidence=at.confidence, because=because
    )


def _frequency(analysis: Analysis) -> CodeFinding[int]:
    every = analysis.checkpoint_every
    if analysis.checkpointing is not None and not analysis.checkpointing.value:
        return CodeFinding(value=0, confidence=analysis.checkpointing.confidence, because="never")
    if every is None:
        return CodeFinding(value=0, confidence=VAGUE, because="not known")
    number = re.match(r"(\d+) steps", every.value)
    if number:
        return CodeFinding(
            value=int(number[1]), file=every.file, line=every.line, confidence=every.confidence
        )
    if every.value == "step":
        return CodeFinding(value=1, file=every.file, line=every.line, confidence=every.confidence)
    return CodeFinding(
        value=_epoch_steps(analysis), file=every.file, line=every.line, confidence=GUESS, because=every.value
    )


def _epoch_steps(analysis: Analysis) -> int:
    samples = analysis.samples.value if analysis.samples is not None else DEFAULT_SAMPLES
    return max(1, samples // (analysis.batch_size.value if analysis.batch_size is not None else 32))


def _tolerance(hours: CodeFinding[float], gpus: int) -> CodeFinding[float]:
    """Return the cost in dollars that is assumed to be acceptable to the user: twice the expected on-demand cost."""
    dollars = round(2 * REFERENCE_DOLLARS_PER_HOUR * gpus * hours.value, 2)
    return CodeFinding(value=dollars, confidence=VAGUE, because="twice the expected time at a typical price")
