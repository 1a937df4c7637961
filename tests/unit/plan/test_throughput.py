"""The roofline's sense: more work takes longer, more machine takes less."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.plan.gpus import GpuSpec, spec, specs
from anygpu.plan.throughput import Work, pace

RESNET50 = Work(batch=256, gmacs=4.11, mega_activations=11.11, mega_parameters=25.6)
MATRICES = replace(RESNET50, gmacs=40.0, mega_activations=1.0)  # waits for multiplications
NUMBERS = replace(RESNET50, gmacs=0.4, mega_activations=6.75)  # waits for memory


def gpu(name: str) -> GpuSpec:
    found = spec(name)
    assert found is not None
    return found


def works() -> st.SearchStrategy[Work]:
    return st.builds(
        Work,
        batch=st.integers(1, 4096),
        gmacs=st.floats(0, 1e4),
        mega_activations=st.floats(0, 1e4),
        mega_parameters=st.floats(0.001, 1e5),
        precision=st.sampled_from(("fp32", "tf32", "fp16", "bf16", "fp8")),
        passes=st.sampled_from((2.0, 3.0, 4.0)),
        least_s=st.floats(0, 1),
    )


def test_a_larger_batch_takes_longer_and_trains_no_fewer_samples_a_second() -> None:
    small, large = (pace(replace(RESNET50, batch=batch), gpu("A100")).step_s for batch in (32, 256))
    assert small < large < 8 * small


@pytest.mark.parametrize("kind", sorted(specs()))
def test_every_gpu_has_a_pace_within_an_interval(kind: str) -> None:
    found = pace(RESNET50, specs()[kind])
    assert 0 < found.low_s < found.step_s < found.high_s < 10 * found.step_s


def test_faster_gpus_are_faster_and_16_bits_faster_than_32() -> None:
    in_order = [pace(RESNET50, gpu(name)).step_s for name in ("T4", "V100", "A100", "H100")]
    assert in_order == sorted(in_order, reverse=True)
    assert pace(replace(RESNET50, precision="fp32"), gpu("A100")).step_s > in_order[2]


def test_bf16_gains_nothing_on_a_gpu_without_the_units() -> None:
    half, brain = (pace(replace(MATRICES, precision=name), gpu("V100")).step_s for name in ("fp16", "bf16"))
    assert brain > 4 * half


def test_two_gpus_are_faster_than_one_and_not_twice_as_fast() -> None:
    one, two = (pace(RESNET50, gpu("A100"), gpus=count).step_s for count in (1, 2))
    assert one / 2 < two < one


def test_what_waits_for_memory_ranks_gpus_otherwise_than_what_multiplies() -> None:
    # An L40S multiplies twice as fast as an RTX 4090 and reads its memory more slowly.
    quick, wide = gpu("L40S"), gpu("RTX4090")
    assert pace(MATRICES, quick).step_s < pace(MATRICES, wide).step_s
    assert pace(NUMBERS, wide).step_s < pace(NUMBERS, quick).step_s


MORE = st.floats(1, 10)


@settings(deadline=None)
@given(works(), st.sampled_from(sorted(specs())), MORE, MORE, st.integers(1, 16))
def test_a_gpu_with_more_of_everything_is_never_slower(
    work: Work, kind: str, faster: float, wider: float, gpus: int
) -> None:
    less = specs()[kind]
    units = ("fp32", "tf32", "fp16", "bf16", "fp8")
    peaks = {f"{unit}_tflops": getattr(less, f"{unit}_tflops") * faster for unit in units}
    more = replace(less, bandwidth_gb_s=less.bandwidth_gb_s * wider, **peaks)
    assert pace(work, more, gpus=gpus).step_s <= pace(work, less, gpus=gpus).step_s
