"""How long a whole training takes: linear in its steps, shared as its GPUs share it, doubtful as its parts are."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.analyse.published_training import trainings
from tests.unit.plan.analyse.scoring import SCRIPTS
from tests.unit.plan.predict.test_step_time import RESNET50, gpu, works

from anygpu.plan.analyse.findings import BLIND
from anygpu.plan.analyse.script import analyse
from anygpu.plan.hardware.gpus import specs
from anygpu.plan.predict.step_time import Assumption, Effort, StepWork, WorkSharing

EPOCHS = Effort(work=RESNET50, batches=10_000)
SHARINGS: tuple[WorkSharing, ...] = ("batches", "batch", "nothing")
DDP = """
import torch, torchvision
from torch.nn.parallel import DistributedDataParallel
batch_size = 64
accumulation_steps = 8
SHARE
model = DistributedDataParallel(torchvision.models.resnet50().cuda())
loader = torch.utils.data.DataLoader(torchvision.datasets.ImageNet("x"), batch_size=batch_size)
"""


def effort(text: str) -> Effort:
    needs = analyse(text).characteristics
    assert needs is not None
    assert needs.effort is not None
    return needs.effort


@settings(deadline=None)
@given(
    works(), st.floats(1, 1e7), st.sampled_from(sorted(specs())), st.integers(1, 8), st.sampled_from(SHARINGS)
)
def test_twice_the_steps_is_twice_the_training_time(
    work: StepWork, batches: float, kind: str, gpus: int, sharing: WorkSharing
) -> None:
    once = Effort(work=work, batches=batches, sharing=sharing)
    twice = replace(once, batches=2 * batches)
    one, two = once.duration_on(specs()[kind], gpus=gpus), twice.duration_on(specs()[kind], gpus=gpus)
    assert two.expected == pytest.approx(2 * one.expected)
    assert (two.low, two.high) == pytest.approx((2 * one.low, 2 * one.high))


def test_epochs_are_shared_by_the_gpus_and_steps_are_not() -> None:
    a100 = gpu("A100")
    one = EPOCHS.duration_on(a100).expected
    assert one / 4 < EPOCHS.duration_on(a100, gpus=4).expected < one / 3
    assert one / 4 < replace(EPOCHS, sharing="batch").duration_on(a100, gpus=4).expected < one / 2
    assert one <= replace(EPOCHS, sharing="nothing").duration_on(a100, gpus=4).expected < 1.5 * one


@settings(deadline=None)
@given(st.lists(st.floats(1, 10), max_size=5), st.floats(1.1, 10))
def test_a_further_doubt_never_narrows_the_interval(factors: list[float], more: float) -> None:
    doubts = tuple(Assumption(what="", factor=factor) for factor in factors)
    less = replace(EPOCHS, assumptions=doubts).duration_on(gpu("A100"))
    further = replace(EPOCHS, assumptions=(*doubts, Assumption(what="", factor=more))).duration_on(
        gpu("A100")
    )
    assert further.low <= less.low < less.expected < less.high <= further.high <= 20 * further.expected
    assert further.expected == less.expected


def test_a_machine_nobody_knows_counts_as_the_reference_with_more_doubt() -> None:
    known, unknown = EPOCHS.duration_on(gpu("A100-40GB")), EPOCHS.duration_on_unknown(slower=20)
    assert unknown.expected == pytest.approx(20 * known.expected)
    assert unknown.high / unknown.expected > 3 > known.high / known.expected


@pytest.mark.parametrize(
    ("share", "loop", "sharing"),
    [
        ("", "for epoch in range(9):\n    for x in loader: model(x).backward()", "batches"),
        ("", "for step in range(900): model(x).backward()", "nothing"),
        ("accumulation_steps //= world_size", "for step in range(900): model(x).backward()", "batches"),
        ("batch_size = int(batch_size / ngpus)", "for epoch in range(9): model(x).backward()", "batch"),
        ("# batch_size / world_size", "for step in range(900): model(x).backward()", "nothing"),
    ],
)
def test_what_gpus_share_is_read_from_the_code(share: str, loop: str, sharing: WorkSharing) -> None:
    assert effort(DDP.replace("SHARE", share) + loop).sharing == sharing


def test_the_less_is_known_the_wider_the_interval() -> None:
    script = DDP.replace("SHARE", "transform = torchvision.transforms.Resize(224)")
    known = effort(script + "for epoch in range(9):\n    for x in loader: model(x).backward()\n")
    text = script.replace('torchvision.datasets.ImageNet("x")', "data")
    unknown = effort(text + "for epoch in range(9):\n    for x in loader: model(x).backward()\n")
    sure, unsure = (each.duration_on(gpu("A100")) for each in (known, unknown))
    assert sure.high / sure.expected < 4
    assert unsure.high / unsure.expected > 10


def test_published_trainings_lie_in_the_interval_and_within_three_times_the_expected() -> None:
    assert len(trainings()) >= 15
    for training in trainings():
        assert training.inside, training
        assert 1 / 3 < training.times < 3, training


def test_what_learns_by_acting_takes_as_long_as_what_it_acts_in() -> None:
    read = analyse((SCRIPTS / "ppo_own_loop.py").read_text())
    assert read.environment is not None
    assert read.characteristics is not None
    assert read.characteristics.effort is None
    assert read.characteristics.duration_hours.confidence == BLIND
    assert "gymnasium" in read.characteristics.duration_hours.because
