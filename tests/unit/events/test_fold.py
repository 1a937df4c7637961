"""The state machine: what may follow what, and what a view says."""

import pytest
from tests.unit.events.histories import (
    LOST,
    RECOVERY,
    after,
    ended,
    launching,
    started,
)

from anygpu.events.facts import (
    Phase,
    Status,
)
from anygpu.events.types import (
    AttemptLost,
    AttemptReleased,
    CancelRequested,
    Event,
    JobCancelled,
    JobCompleted,
    JobWaited,
    StopRequested,
)


@pytest.mark.parametrize(
    ("events", "status", "phase"),
    [
        ([], Status.QUEUED, Phase.PLANNING),
        ([JobWaited(reason="full")], Status.QUEUED, Phase.WAITING),
        ([launching(1)], Status.RUNNING, Phase.PROVISIONING),
        (started(1)[:3], Status.RUNNING, Phase.PREPARING),
        (started(1), Status.RUNNING, Phase.TRAINING),
        ([*started(1), StopRequested(attempt=1, reason="timeout")], Status.RUNNING, Phase.CHECKPOINTING),
        ([*started(1), ended(1)], Status.RUNNING, Phase.FINISHING),
        ([*started(1), ended(1), AttemptReleased(attempt=1), JobCompleted()], Status.COMPLETED, Phase.ENDED),
        (
            [*started(1), AttemptLost(attempt=1, evidence="gone", failure=LOST), RECOVERY],
            Status.RUNNING,
            Phase.RECOVERING,
        ),
        ([CancelRequested(), JobCancelled()], Status.CANCELLED, Phase.ENDED),
    ],
)
def test_status_and_phase_follow_from_the_events(events: list[Event], status: Status, phase: Phase) -> None:
    view = after(*events)
    assert (view.status, view.phase) == (status, phase)
