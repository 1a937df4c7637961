"""Seconds per training step on a GPU nobody has tried yet: a roofline with measured slopes.

A step computes (three times the forward pass), moves activations, moves the optimiser's state, and has a fixed part.
How far real training stays behind the data sheet in the first two was fitted to published training rates of 671
image models on one RTX 3090 (huggingface/pytorch-image-models, results/, Apache-2.0): half of them are met within
12 %, nineteen in twenty within 52 % (`python -m bench.throughput DIR`). Other GPUs follow by their data sheets.
"""

from dataclasses import dataclass
from math import exp, log2, sqrt

from anygpu.plan.gpus import GpuSpec

BEHIND_COMPUTE = 0.9  # of the peak without sparsity, 32-bit accumulation
BEHIND_MOVING = 41  # activations are written and read many times, forward and back
BEHIND_STATE = 1.1
# The table fits 0.02 to 0.06 alike; NVIDIA's ResNet-50 on one A100 (256 pictures in 0.104 s) asks for less.
FIXED_S = 0.02
STATE_BYTES = 16  # a parameter's weight, gradient and two moments
TRAINING = 3.0  # forward, and twice that backward
SPREAD = 0.20  # of the logarithm, among models on the GPU the constants are from
ELSEWHERE = 0.26  # more for another GPU: caches and clocks are not in a data sheet
NINE_IN_TEN = 1.645
COMPUTING = 0.5  # of a usual step of which nothing is known; the rest waits for memory
SCALING_LOSS = 0.08  # of the speed, with each doubling of GPUs in one machine
WIDE = ("fp32", "tf32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one step does. `gmacs` and `mega_activations`: of one sample's forward pass."""

    batch: int
    gmacs: float
    mega_activations: float
    mega_parameters: float  # whose gradients and moments are moved
    precision: str = "fp16"  # fp32, tf32, fp16, bf16 or fp8: which units multiply
    passes: float = TRAINING  # of which one is the forward pass
    least_s: float = 0.0  # to launch it all, on any GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds a step: expected, and where it lies nine times in ten."""

    step_s: float
    low_s: float
    high_s: float


def pace(work: Work, gpu: GpuSpec, *, gpus: int = 1) -> Pace:
    """The batch is shared out among the GPUs."""
    share = work.batch / gpus
    width = 4 if work.precision in WIDE else 2
    per_byte_s = 1 / (gpu.bandwidth_gb_s * 1e9)
    per_operation_s = 1 / (gpu.peak_tflops(work.precision) * 1e12)
    compute_s = BEHIND_COMPUTE * share * work.gmacs * 1e9 * 2 * work.passes * per_operation_s
    moving_s = BEHIND_MOVING * share * work.mega_activations * 1e6 * width * per_byte_s
    state_s = BEHIND_STATE * work.mega_parameters * 1e6 * STATE_BYTES * per_byte_s
    scaling = gpus / speedup(gpus)
    return _with_doubt(max((compute_s + moving_s + state_s) * scaling + FIXED_S, work.least_s), gpu)


def speedup(gpus: int) -> float:
    """Of so many GPUs in one machine over one."""
    return float(gpus * (1 - SCALING_LOSS) ** log2(gpus))


def times_as_long(here: GpuSpec, reference: GpuSpec) -> float:
    """A usual step on one GPU beside the same step on another, by their data sheets alone."""
    compute = reference.peak_tflops("fp16") / here.peak_tflops("fp16")
    moving = reference.bandwidth_gb_s / here.bandwidth_gb_s
    return COMPUTING * compute + (1 - COMPUTING) * moving


def _with_doubt(step_s: float, gpu: GpuSpec) -> Pace:
    spread = SPREAD if gpu.kind == "RTX3090" else sqrt(SPREAD**2 + ELSEWHERE**2)
    factor = exp(NINE_IN_TEN * spread)
    return Pace(step_s=step_s, low_s=step_s / factor, high_s=step_s * factor)
