"""Seconds per training step on a GPU nobody has tried yet: a roofline with measured slopes.

A step computes (three times the forward pass), moves activations, moves the optimiser's state, and has a fixed part.
How far real training stays behind the data sheet in each is one constant; the four were fitted to published training
rates of 671 image models on one RTX 3090 (huggingface/pytorch-image-models, results/, Apache-2.0): half of them are met
within 13 %, nineteen in twenty within 50 % (`python -m bench.throughput DIR`). Other GPUs follow by their data sheets.
"""

from dataclasses import dataclass
from math import exp, log2, sqrt

from anygpu.plan.gpus import GpuSpec

BEHIND_COMPUTE = 0.99  # of the peak without sparsity, 32-bit accumulation
BEHIND_MOVING = 32.6  # activations are written and read many times, forward and back
BEHIND_STATE = 1.1
FIXED_S = 0.064  # launches, data, the Python around it
STATE_BYTES = 16  # a parameter's weight, gradient and two moments
TRAINING = 3  # forward, and twice that backward
SPREAD = 0.20  # of the logarithm, among models on the GPU the constants are from
ELSEWHERE = 0.26  # more for another GPU: caches and clocks are not in a data sheet
NINE_IN_TEN = 1.645
COMPUTING = 0.5  # of a usual step of which nothing is known; the rest waits for memory
SCALING_LOSS = 0.08  # of the speed, with each doubling of GPUs in one machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one step does. `gmacs` and `mega_activations`: of one sample's forward pass."""

    batch: int
    gmacs: float
    mega_activations: float
    mega_parameters: float
    half: bool = True  # AMP, or 16 bits throughout


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds a step: expected, and where it lies nine times in ten."""

    step_s: float
    low_s: float
    high_s: float

    def times(self, factor: float) -> "Pace":
        return Pace(step_s=self.step_s * factor, low_s=self.low_s * factor, high_s=self.high_s * factor)


def pace(work: Work, gpu: GpuSpec, *, gpus: int = 1) -> Pace:
    """The batch is shared out among the GPUs."""
    share = work.batch / gpus
    peak = gpu.peak_tflops("fp16" if work.half else "fp32")
    width = 2 if work.half else 4
    per_byte_s = 1 / (gpu.bandwidth_gb_s * 1e9)
    compute_s = BEHIND_COMPUTE * share * work.gmacs * 1e9 * 2 * TRAINING / (peak * 1e12)
    moving_s = BEHIND_MOVING * share * work.mega_activations * 1e6 * width * per_byte_s
    state_s = BEHIND_STATE * work.mega_parameters * 1e6 * STATE_BYTES * per_byte_s
    scaling = gpus / speedup(gpus)
    return _with_doubt((compute_s + moving_s + state_s) * scaling + FIXED_S, gpu)


def speedup(gpus: int) -> float:
    """Of so many GPUs in one machine over one."""
    return float(gpus * (1 - SCALING_LOSS) ** log2(gpus))


def times_as_long(here: GpuSpec, reference: GpuSpec) -> float:
    """A usual step on one GPU beside the same step on another, by their data sheets alone."""
    compute = reference.peak_tflops("fp16") / here.peak_tflops("fp16")
    moving = reference.bandwidth_gb_s / here.bandwidth_gb_s
    return COMPUTING * compute + (1 - COMPUTING) * moving


def language_work(
    *, batch: int, tokens: int, mega_parameters: float, width: int = 0, half: bool = True
) -> Work:
    """A transformer over text. Without a width, one of the usual shape: a layer for every 64 units of it."""
    parameters = mega_parameters * 1e6
    units = width or round((parameters * 64 / 12) ** (1 / 3))  # 12 width^2 parameters a layer
    layers = parameters / (12 * units**2)
    per_token = layers * 9 * units  # outputs of its matrices; the scores of pairs are fused away today
    return Work(
        batch=batch,
        gmacs=(parameters + layers * tokens * units) * tokens / 1e9,
        mega_activations=tokens * per_token / 1e6,
        mega_parameters=mega_parameters,
        half=half,
    )


def _with_doubt(step_s: float, gpu: GpuSpec) -> Pace:
    spread = SPREAD if gpu.kind == "RTX3090" else sqrt(SPREAD**2 + ELSEWHERE**2)
    factor = exp(NINE_IN_TEN * spread)
    return Pace(step_s=step_s, low_s=step_s / factor, high_s=step_s * factor)
