"""Whether a job can resume, whether it did, what a restart costs, and which checkpoint is used."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.control.running import Timed, job, moved, started

from anygpu.control.progress import trained_s
from anygpu.control.resume import (
    FirstSteps,
    can_resume,
    find_resume_point,
    has_resumed,
    restart_loss,
    resume_events,
    resume_shown,
)
from anygpu.events.facts import CheckpointRef
from anygpu.events.types import AttemptLaunching, CheckpointSaved, TrainingRestarted, TrainingResumed
from anygpu.plan.analyse.script import analyse
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.samples.manifests import OWNER, begin_and_upload


@pytest.mark.parametrize(
    ("saved", "first", "interval", "new_training", "resumed"),
    [
        (500, 501, 100, 1, True),
        (500, 500, 100, 1, True),
        (500, 520, 100, 20, True),  # logs every 20 steps
        (500, 401, 100, 1, True),  # the label may be one interval too high
        (500, 1, 100, 1, False),
        (500, 20, 100, 20, False),
        (500, 399, 100, 1, False),
        (500, 0, 100, None, False),
        (500, 1, 100, None, False),
        (500, 501, 100, None, True),
        (1, 1, 1, 1, None),  # a new training would report the same
        (1, 2, 1, 1, True),
        (1, 2, 1, None, None),
        (0, 1, 1, None, None),
    ],
)
def test_the_first_step_shows_whether_training_continued(
    saved: int, first: int, interval: int, new_training: int | None, resumed: bool | None
) -> None:
    assert has_resumed(saved, first, interval, new_training) is resumed


@pytest.mark.parametrize(
    ("saved", "first", "new_training", "resumed"),
    [
        (2, 1, 1, None),  # a script that counts epochs from 0 continues with `Epoch 1`
        (2, 3, 1, True),
        (3, 1, 1, False),
        (3, 3, 1, True),
        (3, 2, 0, True),
        (3, 0, 0, False),
    ],
)
def test_epochs_that_are_counted_from_zero_are_not_taken_for_a_restart(
    saved: int, first: int, new_training: int, resumed: bool | None
) -> None:
    assert has_resumed(saved, first, 1, new_training, margin=1) is resumed


def ref(
    step: int, attempt: int = 1, at: float = 0, unit: str = "step", epoch: int | None = None
) -> CheckpointRef:
    return CheckpointRef(
        id=f"{attempt}@{step}",
        attempt=attempt,
        step=step,
        manifest="m",
        size=1,
        saved_at_ms=round(at * 1000),
        unit=unit,
        epoch=epoch,
    )


@pytest.mark.parametrize(
    ("checkpoint", "first", "resumed"),
    [
        (ref(500), FirstSteps(step=501), True),
        (ref(500), FirstSteps(step=1), False),
        (ref(500), FirstSteps(), None),
        (ref(500, epoch=5), FirstSteps(epoch=5), True),
        (ref(500, epoch=5), FirstSteps(epoch=0), False),
        (ref(5, unit="epoch"), FirstSteps(epoch=6), True),
        (ref(5, unit="epoch"), FirstSteps(step=1), None),
        (ref(500, unit="count"), FirstSteps(count=501), True),
        (ref(500, unit="count"), FirstSteps(count=0), None),  # `tqdm(range(start, steps))` starts at 0
        (ref(500, unit=""), FirstSteps(step=1, epoch=0, count=0), None),  # saved by an old agent
    ],
)
def test_steps_are_compared_in_the_unit_of_the_checkpoint(
    checkpoint: CheckpointRef, first: FirstSteps, resumed: bool | None
) -> None:
    assert resume_shown(job(), checkpoint, first, FirstSteps()) is resumed


@pytest.mark.parametrize(
    "progress", [{}, {"first_step": None}, {"first_step": "7"}, {"first_step": 7.5}, {"step": 7}]
)
def test_a_report_without_a_whole_first_step_shows_nothing(progress: dict[str, Any]) -> None:
    assert FirstSteps.read(progress) == FirstSteps()


def attempt_from(at: float, number: int, checkpoint: CheckpointRef) -> list[Timed]:
    (launched_at, launching), *more = started(at, number=number)
    assert isinstance(launching, AttemptLaunching)
    return [(launched_at, replace(launching, resume=checkpoint)), *more]


def publish(checkpoint: CheckpointRef) -> Timed:
    return checkpoint.saved_at_ms / 1000, CheckpointSaved(attempt=checkpoint.attempt, checkpoint=checkpoint)


SAVED = ref(500, at=700)  # training of attempt 1 starts at 100
SECOND = [*started(0), publish(SAVED), *moved(800, 1), *attempt_from(900, 2, SAVED)]


def test_a_restart_loses_all_training_before_it() -> None:
    (event,) = resume_events(job(*SECOND), 2, FirstSteps(step=1), FirstSteps(step=1))
    assert event == TrainingRestarted(
        attempt=2, checkpoint_step=500, first_step=1, work_lost_s=700, work_lost_microusd=388_889
    )
    view = job(*SECOND, (1100, event))
    assert (view.work_lost_s, view.work_lost_microusd) == (700, 388_889)
    assert resume_events(view, 2, FirstSteps(step=1), FirstSteps()) == []
    assert not can_resume(view)


def test_a_resume_is_written_once_and_counts_from_then_on() -> None:
    only_files = {"checkpoint": {"paths": ["*.pt"]}}
    assert not can_resume(job(*SECOND, **only_files))
    (event,) = resume_events(job(*SECOND, **only_files), 2, FirstSteps(step=501), FirstSteps())
    assert event == TrainingResumed(attempt=2, checkpoint_step=500, first_step=501)
    view = job(*SECOND, (1100, event), **only_files)
    assert can_resume(view)
    assert view.work_lost_s == 0
    assert resume_events(view, 2, FirstSteps(step=1), FirstSteps()) == []


RESTARTED = TrainingRestarted(attempt=2, checkpoint_step=500, first_step=1, work_lost_s=600)


def test_the_same_work_is_lost_only_once() -> None:
    again = [*SECOND, (1100, RESTARTED), *moved(1200, 2), *attempt_from(1300, 3, SAVED)]
    assert (
        restart_loss(job(*again), 3).seconds == 100 + 200
    )  # what the interruptions lost is not recorded here


def test_the_checkpoint_of_a_restarted_attempt_contains_only_its_own_training() -> None:
    own = ref(40, attempt=2, at=1300)  # training of attempt 2 starts at 1000
    assert trained_s(job(*SECOND, (1100, RESTARTED), publish(own)), own) == 300
    resumed = TrainingResumed(attempt=2, checkpoint_step=500, first_step=501)
    assert trained_s(job(*SECOND, (1100, resumed), publish(own)), own) == 900


CALL = (
    "import anygpu, torch\npath = anygpu.resume_path()\nfor epoch in range(9):\n    torch.save(1, 'a.pt')\n"
)


@pytest.mark.parametrize(
    ("spec", "code", "resumes"),
    [
        ({"checkpoint": {"paths": ["*.pt"]}}, "", False),
        ({"checkpoint": {"paths": ["*.pt"]}}, CALL, True),
        ({"checkpoint": {"resume_args": ["--resume", "{path}"]}}, "", True),
        ({"script": None, "trainer": "torch", "config": {"data": "x"}}, "", True),
    ],
)
def test_what_shows_that_a_job_can_resume(spec: dict[str, Any], code: str, resumes: bool) -> None:
    assert can_resume(job(**spec), analyse(code) if code else None) is resumes


async def stored(count: int) -> tuple[Checkpoints, MemoryBlobs, list[CheckpointRef]]:
    blobs = MemoryBlobs()
    store = Checkpoints(blobs)
    refs = []
    for step in range(1, count + 1):
        begun = await begin_and_upload(store, blobs, OWNER, "a.pt", b"state %d" % step, step=step)
        refs.append((await store.verify(OWNER, begun.id)).ref(step))
    return store, blobs, refs


async def test_the_newest_intact_checkpoint_is_found_behind_damaged_ones() -> None:
    store, blobs, refs = await stored(3)
    assert (await find_resume_point(store, refs)).checkpoint == refs[2]
    for damaged in refs[1:]:
        await blobs.put(damaged.manifest, b"torn")
    found = await find_resume_point(store, refs)
    assert found.checkpoint == refs[0]
    assert [checkpoint for checkpoint, _ in found.damaged] == [refs[2], refs[1]]
    await blobs.put(refs[0].manifest, b"torn")
    assert (await find_resume_point(store, refs)).checkpoint is None
