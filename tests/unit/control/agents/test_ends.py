"""An agent's last word is checked before it is believed."""

from typing import Any

import pytest

from anygpu.control.agents.ends import parse_end
from anygpu.errors import InvalidReport
from anygpu.events.facts import Marks, MemoryUse
from anygpu.events.types import AttemptEnded
from anygpu.store.reports import ReportState


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"outcome": "won"},
        {"outcome": 3},
        {"outcome": "exited"},
        {"outcome": "exited", "exit_code": "0"},
        {"outcome": "exited", "exit_code": True},
        {"outcome": "exited", "exit_code": 0, "last_seq": 2**60},
        {"outcome": "exited", "exit_code": 0, "message": ["a"]},
    ],
)
def test_an_ending_that_makes_no_sense_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidReport):
        parse_end(body)


def test_an_ending_becomes_the_event_with_the_stores_own_marks() -> None:
    ending = parse_end({"outcome": "exited", "exit_code": 0, "last_seq": 9, "step": 4, "log_bytes": 1})
    row = ReportState(acked=9, marks=Marks(log_bytes=100, metric_points=7))
    assert ending.to_event(2, row) == AttemptEnded(
        attempt=2, outcome="exited", exit_code=0, step=4, marks=Marks(log_bytes=100, metric_points=7)
    )


def test_a_long_message_is_cut() -> None:
    assert len(parse_end({"outcome": "cancelled", "message": "x" * 9000}).message) == 4000


@pytest.mark.parametrize(
    ("reported", "known"),
    [
        (
            {"peak": 5, "limit": 9, "machine": 12, "oom_killed": True},
            MemoryUse(peak_bytes=5, limit_bytes=9, machine_bytes=12, oom_killed=True),
        ),
        ({"peak": -1, "limit": 2**60, "oom_killed": "yes"}, MemoryUse()),
        ({"peak": 1.5, "limit": None, "machine": -1}, MemoryUse()),
        ({}, MemoryUse()),
        ([1], None),
        ("much", None),
        (None, None),
    ],
)
def test_memory_that_makes_no_sense_is_left_out_and_the_end_accepted(
    reported: Any, known: MemoryUse | None
) -> None:
    assert parse_end({"outcome": "exited", "signal": 9, "memory": reported}).memory == known
