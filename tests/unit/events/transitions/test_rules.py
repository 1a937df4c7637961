"""An event that does not fit the state of the job is refused."""

import pytest
from tests.unit.events.histories import (
    LOST,
    RECOVERY,
    SAVED,
    after,
    ended,
    launching,
    started,
)

from anygpu.events.transitions import InvalidEvent
from anygpu.events.types import (
    AttemptClaimed,
    AttemptLost,
    AttemptQueued,
    AttemptReleased,
    CancelRequested,
    CheckpointSaved,
    Event,
    JobCancelled,
    JobCompleted,
    JobWaited,
    TrainingStarted,
)


@pytest.mark.parametrize(
    ("history", "out_of_turn"),
    [
        ([CancelRequested(), JobCancelled()], JobCompleted()),
        ([*started(1)], launching(2)),
        ([], launching(2)),
        ([CancelRequested()], launching(1)),
        ([*started(1)], AttemptClaimed(attempt=1, claimant="b")),
        ([*started(1)], AttemptReleased(attempt=1)),
        ([*started(1), ended(1)], JobCompleted()),
        ([*started(1), ended(1)], CheckpointSaved(attempt=1, checkpoint=SAVED)),
        ([*started(1), ended(1)], ended(1)),
        ([*started(1), ended(1), RECOVERY], RECOVERY),
        ([*started(1), ended(1), AttemptReleased(attempt=1)], AttemptReleased(attempt=1)),
        ([launching(1)], TrainingStarted(attempt=1)),
        (
            [*started(1), AttemptLost(attempt=1, evidence="", failure=LOST), RECOVERY, *started(2)],
            CheckpointSaved(attempt=1, checkpoint=SAVED),
        ),
        ([*started(1)], JobWaited(reason="full")),
        ([*started(1)], AttemptQueued(attempt=1, reason="busy")),
    ],
)
def test_an_event_out_of_turn_is_refused(history: list[Event], out_of_turn: Event) -> None:
    after(*history)
    with pytest.raises(InvalidEvent):
        after(*history, out_of_turn)
