"""Tickets and tokens: computed, never stored, and worth nothing when changed."""

import pytest

from anygpu.control.agents.tickets import AttemptKey, Tickets
from anygpu.errors import Unauthorized

OURS, THEIRS = Tickets(b"ours"), Tickets(b"theirs")


def test_a_token_says_whose_it_is() -> None:
    assert OURS.read_token(OURS.token("job", 3, "agent")) == AttemptKey("job", 3, "agent")
    assert OURS.read_ticket(OURS.ticket("job", 3)) == ("job", 3)


def test_the_same_question_gets_the_same_answer() -> None:
    assert OURS.token("job", 1, "agent") == Tickets(b"ours").token("job", 1, "agent")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "...",
        "job.1.agent",
        "job.1.agent.0000",
        THEIRS.token("job", 1, "agent"),
        OURS.ticket("job", 1),
        OURS.token("job", 1, "agent").replace("job", "jab"),
        OURS.token("job", 1, "agent").replace(".1.", ".2."),
        OURS.token("job", 1, "agent") + "\udcff",
    ],
)
def test_a_token_of_another_making_is_refused(token: str) -> None:
    with pytest.raises(Unauthorized):
        OURS.read_token(token)


def test_a_token_is_no_ticket() -> None:
    with pytest.raises(Unauthorized):
        OURS.read_ticket(OURS.token("job", 1, "agent"))
