"""Estimate the work of one training step and its time on a GPU: a roofline model with measured factors.

The time of a step is the sum of four parts: arithmetic (three times that of the forward pass), memory traffic
of the activations, memory traffic of the optimiser's state, and a fixed overhead. The factors of these parts
were fitted to published training rates of 671 image models on one RTX 3090 (huggingface/pytorch-image-models,
results/, Apache-2.0). With them, half of the models are predicted within 12 %, and 95 % within 52 %
(`python -m bench.throughput DIR`). For other GPUs, the times are scaled by the vendors' data sheets.

Data parallel training adds the exchange of the gradients (all-reduce) between GPUs without NVLink and between
machines. Its part that the backward pass does not hide is added to the step.

The arithmetic of a transformer is computed from the dimensions of its layers, that of an image model is
looked up in models.csv. For other models, a rule is used that was fitted to timm's table of 1,442 models; it
is right within a factor of 2.1 for 90 % of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import exp, hypot, log, log2, sqrt
from typing import Literal

from anygpu.plan.hardware.gpus import GpuSpec, spec
from anygpu.plan.hardware.models import MILLION, ModelShape
from anygpu.plan.hardware.networks import Network, find_network, gpu_link_gb_s, has_fast_gpu_link
from anygpu.plan.offers.bill import Span
from anygpu.plan.predict import memory as activations
from anygpu.plan.predict.memory import NumberFormat, TrainingSetup

COMPUTE_FACTOR = 0.9  # relative to the peak without sparsity
TRAFFIC_FACTOR = 41  # activations are written and read many times, forward and backward
STATE_FACTOR = 1.1
# The table fits 0.02 to 0.06 equally well; NVIDIA's ResNet-50 on one A100 (256 images in 0.104 s) needs a low value.
FIXED_STEP_S = 0.02
STATE_BYTES = 16  # per parameter: weight, gradient and two moments
TRAINING_PASSES = 3.0  # forward, and twice that backward
REFERENCE_SPREAD = 0.20  # of the logarithm, among models on the RTX 3090
OTHER_GPU_SPREAD = 0.26  # added for other GPUs: caches and clocks are not in a data sheet
Z_90 = 1.645
COMPUTE_SHARE = 0.5  # of an unknown step; the rest waits for memory
SCALING_LOSS = 0.08  # of the speed, for each doubling of the GPUs in a machine
FULL_PRECISIONS = ("fp32", "tf32")
# Gradients are exchanged while the backward pass computes others. It takes two thirds of a step, and its first part
# has nothing to send yet, so an exchange that takes up to half of the step is assumed to cost no time.
OVERLAP = 0.5
UNKNOWN_NETWORK = find_network("")
NETWORK_FACTOR, ASSUMED_NETWORK_FACTOR = 1.3, 2.0  # by which the time on several machines may be wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """The work of one training step.

    `gmacs` (billions of multiply-accumulates) and `mega_activations` (millions of activations) are for the
    forward pass of one sample.
    """

    batch: int
    gmacs: float
    mega_activations: float
    mega_parameters: float  # with gradients and moments
    precision: str = "fp16"  # of the multiplications: fp32, tf32, fp16, bf16 or fp8
    passes: float = TRAINING_PASSES  # including the forward pass
    min_s: float = 0.0  # time to launch the kernels, on any GPU
    gradient_mb: float = 0.0  # millions of bytes that the GPUs exchange after a step; 0: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDuration:
    """Expected seconds per step, with a 90 % interval."""

    step_s: float
    low_s: float
    high_s: float


def step_duration(
    work: StepWork, gpu: GpuSpec, *, gpus: int = 1, nodes: int = 1, network: Network = UNKNOWN_NETWORK
) -> StepDuration:
    """Predict the time of a step whose batch is split over `nodes` machines with `gpus` GPUs each."""
    share = work.batch / (gpus * nodes)
    width = 4 if work.precision in FULL_PRECISIONS else 2
    per_byte_s = 1 / (gpu.bandwidth_gb_s * 1e9)
    per_operation_s = 1 / (gpu.peak_tflops(work.precision) * 1e12)
    compute_s = COMPUTE_FACTOR * share * work.gmacs * 1e9 * 2 * work.passes * per_operation_s
    moving_s = TRAFFIC_FACTOR * share * work.mega_activations * 1e6 * width * per_byte_s
    state_s = STATE_FACTOR * work.mega_parameters * 1e6 * STATE_BYTES * per_byte_s
    local_s = (compute_s + moving_s + state_s) * gpus / multi_gpu_speedup(gpus)
    exchange_s = all_reduce_s(work, gpu, gpus=gpus, nodes=nodes, network=network)
    exposed_s = max(0.0, exchange_s - OVERLAP * local_s)
    return _with_uncertainty(max(local_s + FIXED_STEP_S, work.min_s) + exposed_s, gpu)


def all_reduce_s(
    work: StepWork, gpu: GpuSpec, *, gpus: int = 1, nodes: int = 1, network: Network = UNKNOWN_NETWORK
) -> float:
    """Return the seconds that the exchange of the gradients takes after one step.

    In a ring of N GPUs, each one sends 2 (N - 1) / N times the bytes of the gradients. Inside a machine with NVLink,
    the exchange is part of the measured `SCALING_LOSS`.
    """
    total = gpus * nodes
    sent_gb = 2 * (total - 1) / total * work.gradient_mb / 1000
    if nodes > 1:
        return sent_gb / min(network.gb_s, gpu_link_gb_s(gpu) if gpus > 1 else network.gb_s)
    return 0.0 if has_fast_gpu_link(gpu) else sent_gb / gpu_link_gb_s(gpu)


def multi_gpu_speedup(gpus: int) -> float:
    """Return how many times faster a machine with `gpus` GPUs trains than a machine with one."""
    return float(gpus * (1 - SCALING_LOSS) ** log2(gpus))


def gpu_slowdown(here: GpuSpec, reference: GpuSpec) -> float:
    """Return how many times longer a typical step takes on `here` than on `reference`, by data sheets."""
    compute = reference.peak_tflops("fp16") / here.peak_tflops("fp16")
    moving = reference.bandwidth_gb_s / here.bandwidth_gb_s
    return COMPUTE_SHARE * compute + (1 - COMPUTE_SHARE) * moving


def _with_uncertainty(step_s: float, gpu: GpuSpec) -> StepDuration:
    spread = REFERENCE_SPREAD if gpu.kind == "RTX3090" else sqrt(REFERENCE_SPREAD**2 + OTHER_GPU_SPREAD**2)
    factor = exp(Z_90 * spread)
    return StepDuration(step_s=step_s, low_s=step_s / factor, high_s=step_s * factor)


# What is divided between GPUs: the number of batches, each batch, or nothing (each GPU does every step).
WorkSharing = Literal["batches", "batch", "nothing"]
REFERENCE_GPU = "A100-40GB"
UNKNOWN_MACHINE_FACTOR = 3.0
MAX_FACTOR = 20.0  # limit of an interval in each direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """An assumption of an estimate, and the factor by which the estimate may be wrong because of it."""

    what: str
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The work of a whole training: work of one batch, number of batches, and the assumptions made."""

    work: StepWork
    batches: float
    sharing: WorkSharing = "batches"
    assumptions: tuple[Assumption, ...] = ()

    def duration_on(
        self, gpu: GpuSpec, *, gpus: int = 1, nodes: int = 1, network: Network = UNKNOWN_NETWORK
    ) -> Span:
        """Return the training time on `nodes` machines with `gpus` GPUs each.

        The errors of the assumptions are treated as independent.
        """
        total = gpus * nodes
        whole = self.work if self.sharing == "batch" else replace(self.work, batch=self.work.batch * total)
        each = step_duration(whole, gpu, gpus=gpus, nodes=nodes, network=network)
        seconds = each.step_s * (self.batches / total if self.sharing == "batches" else self.batches)
        doubts = [assumption.factor for assumption in self.assumptions]
        if nodes > 1:
            doubts.append(ASSUMED_NETWORK_FACTOR if network.is_assumed else NETWORK_FACTOR)
        return _interval(seconds, each.high_s / each.step_s, *doubts)

    def duration_on_unknown(self, *, slower: float) -> Span:
        """Return the training time on an unknown machine: `slower` times the time on the reference GPU."""
        reference = self.duration_on(reference_gpu())
        ratio = reference.high / reference.expected
        return _interval(reference.expected * slower, ratio, UNKNOWN_MACHINE_FACTOR)


@cache
def reference_gpu() -> GpuSpec:
    """Return the GPU for which durations are stated when no machine is named."""
    gpu = spec(REFERENCE_GPU)
    assert gpu is not None
    return gpu


def _interval(seconds: float, *factors: float) -> Span:
    factor = min(MAX_FACTOR, exp(hypot(*map(log, factors))))
    return Span(expected=seconds, low=seconds / factor, high=seconds * factor)


IMAGE_PIXELS = 224**2
DETECTION_PIXELS = 1280 * 800  # image size of published detector counts
WIDTH_PER_LAYER = 64  # width of a typical transformer divided by its number of layers
# Kernel launches of a layer, forward and backward: a short sequence on an A100 takes 44 ms for 16 layers and 90 for 32;
# with LoRA 97 for 24, 142 for 32, 191 for 40 (Lightning-AI/litgpt, tutorials/resource-tables.md).
LAYER_S, ADAPTER_LAYER_S = 0.0028, 0.0045
ADAPTER_SHARE = 0.005  # of the parameters that adapters train
FROZEN_SHARE = 6 / 16  # of a trained parameter's bytes: a frozen one is only read, forward and backward
# Added for quantised parameters: the same page shows 79 ms more for 7B parameters, 191 for 13B.
QUANTISED_SHARE = 20 / 16
PARAMETER_REUSE = 16  # how often a sample uses a parameter of an unknown network
PARAMETERS_PER_OUTPUT = 256  # of an unknown network's layers


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCost:
    """The work of the forward pass of one sample, and the factor by which the estimate may be wrong."""

    gmacs: float
    mega_activations: float
    factor: float = 1.0
    because: str = ""
    layers: int = 0
    is_convolutional: bool = False  # 32-bit convolutions run on TF32 units


def step_work(training: TrainingSetup, *, text: bool = False) -> tuple[StepWork, SampleCost]:
    """Return the work of one step on one GPU, and the work of one sample.

    `text` says that the model, if it is unknown, processes sequences of tokens.
    """
    sized = _sample_cost(training, text=text)
    adapted = bool(training.adapters)
    wide = "tf32" if sized.is_convolutional else "fp32"
    half = "bf16" if training.precision == "fp8" else training.precision
    packed = training.adapters in ("qlora", "lora-8bit")
    share = ADAPTER_SHARE + FROZEN_SHARE + packed * QUANTISED_SHARE if adapted else 1.0
    work = StepWork(
        batch=training.batch,
        gmacs=sized.gmacs,
        mega_activations=sized.mega_activations,
        mega_parameters=training.parameters * share / MILLION,
        precision=half if training.is_half_precision else wide,
        passes=TRAINING_PASSES
        - adapted
        + training.recomputes,  # frozen matrices need no gradient of their own
        min_s=sized.layers * (ADAPTER_LAYER_S if adapted else LAYER_S),
        gradient_mb=training.parameters
        * (ADAPTER_SHARE if adapted else 1.0)
        * (2 if training.half_weights else 4)
        / MILLION,
    )
    return work, sized


def _sample_cost(training: TrainingSetup, *, text: bool) -> SampleCost:
    shape = training.shape
    if shape is not None:
        return _BY_KIND[shape.kind](shape, training)
    if text:
        return _typical_transformer(training)
    return _unknown_image(training) if training.pixels else _unknown_model(training)


def _text(shape: ModelShape, training: TrainingSetup) -> SampleCost:
    """Return the work of one sample of a language model. For a decoder, this includes the output layer."""
    words = shape.vocab * shape.hidden if shape.kind in ("decoder", "gated") else 0
    return _transformer(shape, training.sequence, body=_body(shape), head=words)


def _body(shape: ModelShape) -> float:
    """Return the number of multiplications per token in a transformer, without those of the output layer.

    Models whose attention heads share keys and values need fewer multiplications. They are recognised by their number
    of parameters, which is lower than with full attention.
    """
    matrices = 3 if shape.kind == "gated" else 2
    full = shape.layers * (4 * shape.hidden**2 + matrices * shape.hidden * shape.inner)
    without_words = shape.parameters - shape.vocab * shape.hidden
    return without_words if 0.7 * full <= without_words < full else full


def _vision_transformer(shape: ModelShape, training: TrainingSetup) -> SampleCost:
    tokens = _pixels(shape, training) // shape.vocab**2 + 1  # `vocab` holds the patch
    body = shape.layers * (4 * shape.hidden**2 + 2 * shape.hidden * shape.inner)
    return _transformer(shape, tokens, body=body, head=3 * shape.vocab**2 * shape.hidden)


def _transformer(shape: ModelShape, tokens: int, *, body: float, head: float) -> SampleCost:
    scores = shape.layers * 2 * tokens * shape.hidden
    wide = 2 if shape.kind == "gated" else 1
    # Attention scores are not stored with fused attention.
    outputs = shape.layers * (6 * shape.hidden + wide * shape.inner)
    return SampleCost(
        gmacs=(body + scores + head) * tokens / 1e9,
        mega_activations=outputs * tokens / MILLION,
        layers=shape.layers,
    )


def _typical_transformer(training: TrainingSetup) -> SampleCost:
    """Return the work of one sample of an unknown transformer.

    The transformer is assumed to have one layer per 64 units of width, and 12 square matrices per layer.
    """
    parameters, tokens = training.parameters, training.sequence
    units = max(1.0, (parameters * WIDTH_PER_LAYER / 12) ** (1 / 3))
    layers = parameters / (12 * units**2)
    return SampleCost(
        gmacs=(parameters + layers * 2 * tokens * units) * tokens / 1e9,
        mega_activations=layers * 10 * units * tokens / MILLION,
        factor=1.5,
        because="typical layer sizes assumed",
        layers=round(layers),
    )


def _image(shape: ModelShape, training: TrainingSetup) -> SampleCost:
    larger = _pixels(shape, training) / shape.size**2
    counted = bool(shape.gmacs)
    return SampleCost(
        gmacs=(shape.gmacs or _gmacs_by_rule(shape)) * larger,
        mega_activations=shape.activations * larger,
        factor=1.0 if counted else 2.1,
        because="" if counted else "amount of arithmetic estimated from the model's size",
        is_convolutional=True,
    )


def _gmacs_by_rule(shape: ModelShape) -> float:
    """Return the billions of multiply-accumulates of a forward pass, estimated from the model's size.

    The formula is a least-squares fit to the logarithms of timm's table, at 224 x 224 pixels.
    """
    larger = shape.size**2 / IMAGE_PIXELS
    millions = shape.parameters / MILLION
    return float(0.078 * (shape.activations / larger) ** 0.465 * millions**0.819 * larger)


def _detector(shape: ModelShape, training: TrainingSetup) -> SampleCost:
    depth = 101 if "101" in shape.name else 50
    heads: activations.DetectionHead = "one-stage" if "retina" in shape.name else "two-stage"
    pixels = training.pixels or DETECTION_PIXELS
    kept = (
        activations.detector_activations(depth, pixels, heads, NumberFormat(element_bytes=1))
        / activations.BATCH_NORM_COPIES
    )
    return SampleCost(
        gmacs=shape.gmacs * pixels / DETECTION_PIXELS,
        mega_activations=kept / MILLION,
        factor=1.5,
        because="the sizes of the images may differ",
        is_convolutional=True,
    )


def _diffusion(shape: ModelShape, training: TrainingSetup) -> SampleCost:
    """Return the work of one training sample of a diffusion model.

    A 512 x 512 image costs 530 GMACs: 339 for the UNet of Stable Diffusion 1 (Kim et al., BK-SDM, 2023), and
    the rest for encoding the image, which is not trained.
    """
    larger = _pixels(shape, training) / 512**2 * sqrt(shape.parameters / 1.07e9)
    return SampleCost(
        gmacs=530 * larger,
        mega_activations=350 * larger,
        factor=2.0,
        because="amount of arithmetic estimated from the size of the diffusion model",
        is_convolutional=True,
    )


def _unknown_image(training: TrainingSetup) -> SampleCost:
    """Return the work of one image for an unknown image model: typical for its size, by timm's table."""
    larger, millions = training.pixels / IMAGE_PIXELS, training.parameters / MILLION
    return SampleCost(
        gmacs=0.174 * millions * larger,
        mega_activations=2.9 * sqrt(millions) * larger,
        factor=4.0,
        because="only the number of parameters of the model is known",
        is_convolutional=True,
    )


def _unknown_model(training: TrainingSetup) -> SampleCost:
    uses = training.parameters * PARAMETER_REUSE
    return SampleCost(
        gmacs=uses / 1e9,
        mega_activations=uses / PARAMETERS_PER_OUTPUT / MILLION,
        factor=4.0,
        because="only the number of parameters of the model is known",
    )


def _pixels(shape: ModelShape, training: TrainingSetup) -> int:
    return training.pixels or shape.size**2


_BY_KIND: dict[str, Callable[[ModelShape, TrainingSetup], SampleCost]] = {
    "encoder": _text,
    "decoder": _text,
    "gated": _text,
    "vit": _vision_transformer,
    "conv": _image,
    "yolo": _image,
    "detector": _detector,
    "diffusion": _diffusion,
}
