"""Decide whether a job can resume, whether a restarted script did resume, and from which checkpoint to start.

Whether a script resumed is decided from the first step that it reports. A script that continues from a checkpoint
reports a first step close to that of the checkpoint. A script that ignores it reports the first step of a new training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.errors import BlobCorrupt, BlobMissing
from anygpu.events.facts import CheckpointRef
from anygpu.events.types import TrainingRestarted, TrainingResumed
from anygpu.events.view import JobView
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.offers.fit import code_resumes, has_resume_path
from anygpu.store.blobs.checkpoints import Checkpoints

USUAL_FIRST_STEP = 1


def can_resume(view: JobView, analysis: Analysis | None = None) -> bool:
    """Return whether a restarted attempt of the job is expected to continue from its checkpoint.

    What earlier attempts have shown counts more than the spec and the code.
    """
    if view.resumed is not None:
        return view.resumed
    return view.code_resumes or has_resume_path(view.spec) or code_resumes(view.spec, analysis)


# -- whether an attempt resumed ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSteps:
    """The first step, epoch and progress bar count that an attempt reported; None if it reported none."""

    step: int | None = None
    epoch: int | None = None
    count: int | None = None

    @classmethod
    def read(cls, progress: Mapping[str, Any]) -> "FirstSteps":
        """Read the first steps from the progress report of an attempt."""
        values = {name: progress.get(f"first_{name}") for name in ("step", "epoch", "count")}
        return cls(**{name: value for name, value in values.items() if isinstance(value, int)})

    @property
    def shown(self) -> int | None:
        """The first step, epoch or count that is shown to a user."""
        return next((first for first in (self.step, self.epoch, self.count) if first is not None), None)


def has_resumed(
    saved: int, first: int, interval: int, new_training: int | None = None, *, margin: int = 0
) -> bool | None:
    """Return whether training continued from the checkpoint at step `saved`; None if `first` does not show it.

    `first` is the first step that the attempt reported. `interval` is the distance to the checkpoint before: the step
    of a checkpoint may be recorded that much too high. `new_training` is the first step that this job reported in an
    attempt without a checkpoint. A first step that is higher by up to `margin` may be one that is counted from 0
    instead of 1.
    """
    start = USUAL_FIRST_STEP if new_training is None else new_training
    if saved <= start + margin:
        return True if new_training is not None and first > start + margin else None
    return first > start and first >= saved - interval


def resume_shown(
    view: JobView, checkpoint: CheckpointRef, first: FirstSteps, new_training: FirstSteps
) -> bool | None:
    """Return whether the first steps of an attempt show that it continued from its checkpoint; None if they do not.

    The count of a progress bar may start at 0 after a resume, so it never shows that training restarted.
    """
    epoch = checkpoint.step if checkpoint.unit == "epoch" else checkpoint.epoch
    if checkpoint.unit == "step" and first.step is not None:
        interval = _interval(
            checkpoint.step, [c.step for c in _earlier(view, checkpoint) if c.unit == "step"]
        )
        return has_resumed(checkpoint.step, first.step, interval, new_training.step)
    if epoch is not None and first.epoch is not None:
        known = [c.step if c.unit == "epoch" else c.epoch for c in _earlier(view, checkpoint)]
        interval = _interval(epoch, [each for each in known if each is not None])
        shown = has_resumed(epoch, first.epoch, interval, new_training.epoch, margin=1)
        if shown is not None:
            return shown
    if checkpoint.unit == "count" and first.count is not None:
        interval = _interval(
            checkpoint.step, [c.step for c in _earlier(view, checkpoint) if c.unit == "count"]
        )
        return has_resumed(checkpoint.step, first.count, interval, new_training.count) or None
    return None


def _earlier(view: JobView, checkpoint: CheckpointRef) -> list[CheckpointRef]:
    return [each for each in view.checkpoints if each.saved_at_ms < checkpoint.saved_at_ms]


def _interval(saved: int, earlier: list[int]) -> int:
    """Return the number of steps to the checkpoint before; if there is none, half of the steps since the start."""
    before = [step for step in earlier if step < saved]
    return saved - max(before) if before else max(1, saved // 2)


def resume_events(
    view: JobView, number: int, first: FirstSteps, new_training: FirstSteps
) -> list[TrainingResumed | TrainingRestarted]:
    """Return the event that says whether the running attempt `number` resumed; empty if that is not known yet."""
    live = view.live_attempt
    if live is None or live.number != number or live.resume is None or live.resumed is not None:
        return []
    shown, step = resume_shown(view, live.resume, first, new_training), first.shown
    if shown is None or step is None:
        return []
    if shown:
        return [TrainingResumed(attempt=number, checkpoint_step=live.resume.step, first_step=step)]
    lost = restart_loss(view, number)
    return [
        TrainingRestarted(
            attempt=number,
            checkpoint_step=live.resume.step,
            first_step=step,
            work_lost_s=lost.seconds,
            work_lost_microusd=lost.microusd,
        )
    ]


def attempts_without_checkpoint(view: JobView) -> list[int]:
    """Return the numbers of the attempts that trained from the beginning."""
    return [a.number for a in view.attempts if a.resume is None and a.training_at_ms is not None]


# -- work lost by a restart ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An amount of training: its time and its cost."""

    seconds: float
    microusd: int


def restart_loss(view: JobView, number: int) -> Work:
    """Return the work that is lost because attempt `number` started from the beginning.

    This is all training of the earlier attempts, without what the job has already counted as lost.
    """
    seconds, microusd = -view.work_lost_s, -view.work_lost_microusd
    for attempt in view.attempts[: number - 1]:
        if attempt.training_at_ms is not None and attempt.ended_at_ms is not None:
            trained_s = max(0, attempt.ended_at_ms - attempt.training_at_ms) / 1000
            seconds += trained_s
            microusd += round(trained_s * attempt.hourly_microusd / 3600)
    return Work(seconds=max(0.0, seconds), microusd=max(0, microusd))


# -- the checkpoint to start from ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The newest intact checkpoint, and the newer ones that are damaged, each with the reason."""

    checkpoint: CheckpointRef | None
    damaged: tuple[tuple[CheckpointRef, str], ...] = ()


async def find_resume_point(store: Checkpoints, checkpoints: Sequence[CheckpointRef]) -> ResumePoint:
    """Return the newest of these checkpoints (oldest first) that is intact."""
    damaged: list[tuple[CheckpointRef, str]] = []
    for checkpoint in reversed(checkpoints):
        try:
            await store.check(checkpoint.manifest)
        except (BlobCorrupt, BlobMissing) as error:
            damaged.append((checkpoint, str(error)))
        else:
            return ResumePoint(checkpoint=checkpoint, damaged=tuple(damaged))
    return ResumePoint(checkpoint=None, damaged=tuple(damaged))
