"""What the broker's content says about an attempt."""

from dataclasses import replace

import pytest

from anygpu.backends.celery.broker_client import BrokerState
from anygpu.backends.celery.content import QueuedMessage
from anygpu.backends.celery.messages import EndedAttempt, ReportedAttempt, WorkerReport
from anygpu.backends.celery.observe import observe
from anygpu.backends.contract import MachineState
from anygpu.events.offers import Handle

NAME, OWNER, NOW_MS = f"anygpu-{'ab' * 16}-1", "0123456789ab", 1_000_000
SENT = Handle(name=NAME, native={"worker": "gpu0@lab1", "instance": "one", "sent_at_ms": NOW_MS - 1_000})


def report(**fields: object) -> WorkerReport:
    base = {
        "name": "gpu0@lab1",
        "instance": "one",
        "host": "lab1",
        "version": "0",
        "started_at_ms": 1,
        "at_ms": NOW_MS,
        "clock_ms": NOW_MS,
    }
    return WorkerReport.model_validate({**base, **fields})


def state(*reports: WorkerReport, **fields: object) -> BrokerState:
    empty = BrokerState(
        now_ms=NOW_MS,
        reports={each.name: each for each in reports if not each.stopped},
        stopped={each.name: each for each in reports if each.stopped},
        silent_since_ms={},
        invalid=[],
        messages=[],
    )
    return replace(empty, **fields)  # type: ignore[arg-type]


def attempt(kind: str, owner: str = OWNER) -> ReportedAttempt:
    return ReportedAttempt.model_validate({"name": NAME, "owner": owner, "state": kind})


ENDED = EndedAttempt(name=NAME, owner=OWNER, detail="the agent has ended")
REFUSED = EndedAttempt(name=NAME, owner=OWNER, detail="no GPU is free", refusal="no_capacity")
WAITING = [QueuedMessage("gpu0@lab1", NAME, OWNER, b"")]
LATE = replace(SENT, native={**SENT.native, "sent_at_ms": NOW_MS - 61_000})


@pytest.mark.parametrize(
    ("handle", "content", "expected", "detail"),
    [
        (SENT, state(report(attempts=(attempt("running"),))), "running", "the agent runs on gpu0@lab1"),
        (SENT, state(report(attempts=(attempt("starting"),))), "pending", "starts the agent"),
        (SENT, state(report(attempts=(attempt("exited"),))), "exited", "the agent on gpu0@lab1 died"),
        (SENT, state(report(ended=(ENDED,))), "gone", "the agent has ended"),
        (SENT, state(report(), messages=WAITING), "pending", "waits in the queue of gpu0@lab1"),
        (SENT, state(report()), "pending", "takes the message"),
        (LATE, state(report()), "gone", "the broker has lost the message"),
        (SENT, state(report(instance="two")), "gone", "was restarted and does not run the attempt"),
        (SENT, state(report(instance="two", started_at_ms=NOW_MS - 5_000)), "pending", "reads its queue"),
        (SENT, state(report(stopped=True)), "gone", "was stopped; nothing runs there"),
        (SENT, state(silent_since_ms={"gpu0@lab1": NOW_MS - 95_000}), "absent", "has sent nothing for 95 s"),
        (SENT, state(silent_since_ms={"gpu0@lab1": 0}, messages=WAITING), "absent", "has sent nothing for"),
        (SENT, state(), "absent", "is not known to the broker"),
        (Handle(name=NAME), state(report()), "absent", "no worker reports the attempt"),
        (Handle(name=NAME), state(report(attempts=(attempt("running"),))), "running", "gpu0@lab1"),
        (Handle(name=NAME), state(report(attempts=(attempt("running", "ba9876543210"),))), "absent", ""),
    ],
)
def test_the_state_of_an_attempt(handle: Handle, content: BrokerState, expected: str, detail: str) -> None:
    observed = observe(content, handle, OWNER)
    assert observed.state is MachineState(expected)
    assert detail in observed.detail


def test_a_refusal_has_its_reason_as_failure() -> None:
    observed = observe(state(report(ended=(REFUSED,))), SENT, OWNER)
    assert observed.failure is not None
    assert (observed.failure.code, observed.failure.message) == ("no_capacity", "no GPU is free")


def test_an_attempt_that_another_worker_runs_is_found() -> None:
    other = report(name="gpu1@lab2", attempts=(attempt("running"),))
    assert observe(state(report(), other), SENT, OWNER).detail == "the agent runs on gpu1@lab2"
