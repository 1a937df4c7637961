"""Which checkpoints the state of a job keeps."""

from dataclasses import replace
from itertools import pairwise

from tests.unit.events.histories import (
    SAVED,
    after,
    started,
)

from anygpu.events.facts import (
    CheckpointRef,
)
from anygpu.events.types import (
    CheckpointRejected,
    CheckpointSaved,
)


def test_an_attempt_knows_when_it_saved_checkpoints_in_bounded_space() -> None:
    def saved(step: int) -> CheckpointSaved:
        return CheckpointSaved(
            attempt=1, checkpoint=replace(SAVED, id=f"c{step}", step=step, saved_at_ms=step)
        )

    for count in (0, 1, 32, 33, 65, 500):
        attempt = after(*started(1), *(saved(step) for step in range(count))).attempts[0]
        steps = [mark.step for mark in attempt.checkpoint_marks]
        assert attempt.checkpoints_saved == count
        assert len(steps) <= 33
        assert steps[-1:] == ([count - 1] if count else [])
        gaps = {later - earlier for earlier, later in pairwise(steps[:-1])}
        assert len(gaps) <= 1  # evenly chosen, except for the newest


def test_only_the_newest_checkpoints_are_kept() -> None:
    saves = [
        CheckpointSaved(
            attempt=1,
            checkpoint=CheckpointRef(id=f"c{n}", attempt=1, step=n, manifest=f"m{n}", size=1, saved_at_ms=n),
        )
        for n in range(1, 6)
    ]
    view = after(*started(1), *saves)
    assert [c.step for c in view.checkpoints] == [3, 4, 5]
    rejected = after(*started(1), *saves, CheckpointRejected(attempt=1, checkpoint_id="c5", reason="torn"))
    assert rejected.newest_checkpoint is not None
    assert rejected.newest_checkpoint.step == 4
