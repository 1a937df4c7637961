"""Events about the checkpoints and result files that an attempt publishes."""

from dataclasses import replace

from anygpu.events.facts import CheckpointMark, CheckpointRef
from anygpu.events.transitions.rules import apply, require_live, with_attempt
from anygpu.events.types import ArtifactSaved, CheckpointRejected, CheckpointSaved
from anygpu.events.view import AttemptView, JobView

REMEMBERED = 50  # ids of deleted checkpoints
MAX_CHECKPOINT_MARKS = 32  # for each attempt


@apply.register
def _(event: CheckpointSaved, view: JobView, at_ms: int) -> JobView:
    require_live(event, event.attempt, view)
    saved = event.checkpoint
    mark = CheckpointMark(step=saved.step, saved_at_ms=saved.saved_at_ms)
    view = with_attempt(view, event.attempt, lambda a: _with_mark(a, mark))
    return _with_checkpoints(view, (*view.checkpoints, saved))


@apply.register
def _(event: CheckpointRejected, view: JobView, at_ms: int) -> JobView:
    good = tuple(c for c in view.checkpoints if c.id != event.checkpoint_id)
    return replace(view, checkpoints=good)


@apply.register
def _(event: ArtifactSaved, view: JobView, at_ms: int) -> JobView:
    require_live(event, event.attempt, view)
    others = tuple(a for a in view.artifacts if a.name != event.artifact.name)
    return replace(view, artifacts=(*others, event.artifact))


def _with_checkpoints(view: JobView, checkpoints: tuple[CheckpointRef, ...]) -> JobView:
    """Return the job's state with the newest of these checkpoints.

    The ids of the checkpoints that are dropped are kept for a while, to recognise repeated commits.
    """
    surplus = max(0, len(checkpoints) - max(1, view.spec.checkpoint.keep))
    past = (*view.past_checkpoints, *(c.id for c in checkpoints[:surplus]))
    return replace(view, checkpoints=checkpoints[surplus:], past_checkpoints=past[-REMEMBERED:])


def _with_mark(attempt: AttemptView, mark: CheckpointMark) -> AttemptView:
    """Return the attempt with one more saved checkpoint.

    Only every second, fourth, … mark of many is kept, and the newest, so that the size of the view is bounded.
    """
    count = attempt.checkpoints_saved
    kept = _mark_numbers(count + 1)
    numbered = zip(_mark_numbers(count), attempt.checkpoint_marks, strict=True)
    marks = (*(earlier for number, earlier in numbered if number in kept), mark)
    return replace(attempt, checkpoints_saved=count + 1, checkpoint_marks=marks)


def _mark_numbers(count: int) -> list[int]:
    """Return which of `count` checkpoints, counted from 0, have a mark."""
    stride = 1
    while count > MAX_CHECKPOINT_MARKS * stride:
        stride *= 2
    numbers = list(range(0, count, stride))
    return numbers if not count or numbers[-1] == count - 1 else [*numbers, count - 1]
