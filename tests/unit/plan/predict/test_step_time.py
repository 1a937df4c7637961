"""The roofline's sense: more work takes longer, more machine takes less."""

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.plan.hardware import models
from anygpu.plan.hardware.gpus import GpuSpec, spec, specs
from anygpu.plan.hardware.models import ModelKind
from anygpu.plan.predict.memory import TrainingSetup
from anygpu.plan.predict.step_time import StepWork, step_duration, step_work

RESNET50 = StepWork(batch=256, gmacs=4.11, mega_activations=11.11, mega_parameters=25.6)
MATRICES = replace(RESNET50, gmacs=40.0, mega_activations=1.0)  # waits for multiplications
NUMBERS = replace(RESNET50, gmacs=0.4, mega_activations=6.75)  # waits for memory


def gpu(name: str) -> GpuSpec:
    found = spec(name)
    assert found is not None
    return found


def works() -> st.SearchStrategy[StepWork]:
    return st.builds(
        StepWork,
        batch=st.integers(1, 4096),
        gmacs=st.floats(0, 1e4),
        mega_activations=st.floats(0, 1e4),
        mega_parameters=st.floats(0.001, 1e5),
        precision=st.sampled_from(("fp32", "tf32", "fp16", "bf16", "fp8")),
        passes=st.sampled_from((2.0, 3.0, 4.0)),
        min_s=st.floats(0, 1),
    )


def test_a_larger_batch_takes_longer_and_trains_no_fewer_samples_a_second() -> None:
    small, large = (step_duration(replace(RESNET50, batch=batch), gpu("A100")).step_s for batch in (32, 256))
    assert small < large < 8 * small


@pytest.mark.parametrize("kind", sorted(specs()))
def test_every_gpu_has_a_pace_within_an_interval(kind: str) -> None:
    found = step_duration(RESNET50, specs()[kind])
    assert 0 < found.low_s < found.step_s < found.high_s < 10 * found.step_s


def test_faster_gpus_are_faster_and_16_bits_faster_than_32() -> None:
    in_order = [step_duration(RESNET50, gpu(name)).step_s for name in ("T4", "V100", "A100", "H100")]
    assert in_order == sorted(in_order, reverse=True)
    assert step_duration(replace(RESNET50, precision="fp32"), gpu("A100")).step_s > in_order[2]


def test_bf16_gains_nothing_on_a_gpu_without_the_units() -> None:
    half, brain = (
        step_duration(replace(MATRICES, precision=name), gpu("V100")).step_s for name in ("fp16", "bf16")
    )
    assert brain > 4 * half


def test_two_gpus_are_faster_than_one_and_not_twice_as_fast() -> None:
    one, two = (step_duration(RESNET50, gpu("A100"), gpus=count).step_s for count in (1, 2))
    assert one / 2 < two < one


def test_what_waits_for_memory_ranks_gpus_otherwise_than_what_multiplies() -> None:
    # An L40S multiplies twice as fast as an RTX 4090 and reads its memory more slowly.
    quick, wide = gpu("L40S"), gpu("RTX4090")
    assert step_duration(MATRICES, quick).step_s < step_duration(MATRICES, wide).step_s
    assert step_duration(NUMBERS, wide).step_s < step_duration(NUMBERS, quick).step_s


MORE = st.floats(1, 10)


@settings(deadline=None)
@given(works(), st.sampled_from(sorted(specs())), MORE, MORE, st.integers(1, 16))
def test_a_gpu_with_more_of_everything_is_never_slower(
    work: StepWork, kind: str, faster: float, wider: float, gpus: int
) -> None:
    less = specs()[kind]
    units = ("fp32", "tf32", "fp16", "bf16", "fp8")
    peaks = {f"{unit}_tflops": getattr(less, f"{unit}_tflops") * faster for unit in units}
    more = replace(less, bandwidth_gb_s=less.bandwidth_gb_s * wider, **peaks)
    assert step_duration(work, more, gpus=gpus).step_s <= step_duration(work, less, gpus=gpus).step_s


def training(name: str, **more: Any) -> TrainingSetup:
    shape = models.find_model(name)
    assert shape is not None
    return TrainingSetup(parameters=shape.parameters, shape=shape, **more)


@pytest.mark.parametrize(
    ("name", "gmacs"),
    [
        # huggingface/pytorch-image-models, results/benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv
        ("vit_small_patch16_224", 4.61),
        ("vit_base_patch16_224", 17.58),
        ("vit_base_patch32_224", 4.41),
        ("vit_large_patch16_224", 61.6),
        ("deit_tiny_patch16_224", 1.26),
        ("resnet50", 4.11),
    ],
)
def test_pictures_are_counted_as_timm_counts_them(name: str, gmacs: float) -> None:
    work, sized = step_work(training(name))
    assert work.gmacs == pytest.approx(gmacs, rel=0.02)
    assert sized.factor == 1.0


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gpt2", 0.124), ("meta-llama/Llama-2-7b-hf", 6.6), ("albert-base-v2", 0.085), ("falcon-7b", 7.2)],
)
def test_a_token_goes_once_through_every_matrix(name: str, billions: float) -> None:
    assert step_work(training(name, sequence=1))[0].gmacs == pytest.approx(billions, rel=0.03)


def test_twice_the_side_is_four_times_the_work() -> None:
    small, large = (step_work(training("resnet50", pixels=side**2))[0] for side in (112, 224))
    assert large.gmacs == pytest.approx(4 * small.gmacs)
    assert large.mega_activations == pytest.approx(4 * small.mega_activations)


def test_adapters_save_a_pass_and_recomputing_costs_one() -> None:
    whole = training("gpt2")
    adapted, again = replace(whole, adapters="lora"), replace(whole, recomputes=True)
    assert [step_work(each)[0].passes for each in (adapted, whole, again)] == [2.0, 3.0, 4.0]
    assert step_work(adapted)[0].mega_parameters < step_work(whole)[0].mega_parameters
    assert (
        step_work(replace(whole, adapters="qlora"))[0].mega_parameters > step_work(adapted)[0].mega_parameters
    )


def test_convolutions_in_32_bits_use_the_units_that_matrices_do_not() -> None:
    assert step_work(training("resnet50"))[0].precision == "tf32"
    assert step_work(training("bert-base-uncased"))[0].precision == "fp32"


@pytest.mark.parametrize("known", [{"pixels": 224**2}, {"sequence": 128}, {}], ids=str)
def test_of_a_model_nobody_knows_the_parameters_say_something_with_a_wide_doubt(
    known: dict[str, Any],
) -> None:
    small, large = (
        step_work(TrainingSetup(parameters=count, **known), text="sequence" in known)
        for count in (10**6, 10**8)
    )
    assert 10 < large[0].gmacs / small[0].gmacs < 1000
    assert small[1].factor >= 1.5
    assert small[1].because


@pytest.mark.parametrize("kind", get_args(ModelKind))
def test_every_kind_of_the_table_has_work_to_do(kind: str) -> None:
    shapes = [shape for shape in models.all_models() if shape.kind == kind]
    assert shapes
    for shape in shapes:
        work, _ = step_work(TrainingSetup(parameters=shape.parameters, shape=shape, batch=4))
        assert work.gmacs > 0, shape.name
        assert work.mega_activations > 0, shape.name
