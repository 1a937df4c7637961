"""The end report of an agent: check it, and turn it into an event."""

from collections.abc import Mapping
from typing import Any

from anygpu.bounds import MAX_END_MESSAGE_LENGTH, is_count, is_step, to_text
from anygpu.control.agents.tickets import AttemptKey
from anygpu.errors import InvalidReport
from anygpu.events.facts import MemoryUse
from anygpu.events.types import AttemptEnded, NodeEnded
from anygpu.store.reports import ReportState

OUTCOMES = {"exited", "cancelled", "stopped", "timeout", "failed_to_start", "lease_lost", "results_missing"}
REPORTS_ONLY = "agent_lost"  # reports delivered after the agent died: there is nothing to commit


class ReportedEnd:
    """The end report of an agent, validated like all input from agents."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.outcome = _text(body, "outcome")
        self.exit_code = _integer(body, "exit_code")
        self.signal = _integer(body, "signal")
        self.step = _step(body)
        self.message = to_text(_text(body, "message"), MAX_END_MESSAGE_LENGTH)
        self.last_seq = _integer(body, "last_seq") or 0
        self.memory = _memory(body.get("memory"))

    def to_event(self, attempt: int, row: ReportState) -> AttemptEnded:
        return AttemptEnded(
            attempt=attempt,
            outcome=self.outcome,
            exit_code=self.exit_code,
            signal=self.signal,
            message=self.message,
            step=self.step,
            marks=row.marks,
            memory=self.memory,
        )

    def to_node_event(self, key: AttemptKey) -> NodeEnded:
        return NodeEnded(
            attempt=key.attempt,
            node=key.node,
            outcome=self.outcome,
            exit_code=self.exit_code,
            signal=self.signal,
            message=self.message,
            step=self.step,
            memory=self.memory,
        )


def parse_end(body: Mapping[str, Any]) -> ReportedEnd:
    ending = ReportedEnd(body)
    if ending.outcome not in OUTCOMES | {REPORTS_ONLY}:
        raise InvalidReport(
            f"the end report has the unknown outcome {ending.outcome!r}; update the agent or the server"
        )
    if ending.outcome == "exited" and ending.exit_code is None and ending.signal is None:
        raise InvalidReport(
            "the end report has the outcome 'exited', but neither `exit_code` nor `signal`; send one of them"
        )
    return ending


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidReport(f"the field {name!r} of the end report is not a string; send a string")
    return value or ""


def _integer(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is not None and not is_step(value):
        raise InvalidReport(
            f"the field {name!r} of the end report is not a whole number below 2^53; send one"
        )
    return value


def _step(body: Mapping[str, Any]) -> int | None:
    """Return the last step of the attempt; None if it is out of range.

    An agent of an older version reports any step that the script logs. If such an end report were refused, a
    successful attempt would be repeated.
    """
    value = body.get("step")
    if value is not None and type(value) is not int:
        raise InvalidReport("the field 'step' of the end report is not a whole number; send one")
    return value if is_step(value) else None


def _memory(reported: Any) -> MemoryUse | None:
    """Return the reported memory use, without values that are invalid."""
    if not isinstance(reported, dict):
        return None
    peak, limit, machine, killed = (reported.get(name) for name in ("peak", "limit", "machine", "oom_killed"))
    return MemoryUse(
        peak_bytes=peak if is_count(peak) else None,
        limit_bytes=limit if is_count(limit) else None,
        machine_bytes=machine if is_count(machine) else None,
        oom_killed=killed if isinstance(killed, bool) else None,
    )
