"""The roofline's sense: more work takes longer, more machine takes less, and known trainings come out about right."""

from dataclasses import replace

import pytest

from anygpu.plan.gpus import GpuSpec, spec, specs
from anygpu.plan.throughput import Work, language_work, pace

RESNET50 = Work(batch=256, gmacs=4.11, mega_activations=11.11, mega_parameters=25.6)


def gpu(name: str) -> GpuSpec:
    found = spec(name)
    assert found is not None
    return found


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
    assert pace(replace(RESNET50, half=False), gpu("A100")).step_s > in_order[2]


def test_two_gpus_are_faster_than_one_and_not_twice_as_fast() -> None:
    one, two = (pace(RESNET50, gpu("A100"), gpus=count).step_s for count in (1, 2))
    assert one / 2 < two < one


def test_gpt2_comes_out_within_the_interval_of_its_published_rate() -> None:
    # karpathy/nanoGPT, README: 124M parameters, 8 x A100 40 GB, about 4 days for 600,000 steps of 480 x 1024 tokens.
    work = language_work(batch=480, tokens=1024, mega_parameters=124, width=768)
    found = pace(work, gpu("A100-40GB"), gpus=8)
    assert found.low_s <= 4 * 86_400 / 600_000 <= found.high_s, found
