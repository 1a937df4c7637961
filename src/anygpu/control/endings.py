"""An agent's last word, checked: untrusted like everything an agent says."""

from collections.abc import Mapping
from typing import Any

from anygpu.errors import InvalidReport
from anygpu.events.types import AttemptEnded
from anygpu.store.evidence import AttemptRow

OUTCOMES = {"exited", "cancelled", "stopped", "timeout", "failed_to_start", "lease_lost"}
EVIDENCE_ONLY = "agent_lost"  # a delivery after the agent's death: nothing to commit


class Ending:
    """An agent's last word, checked."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.outcome = _text(body, "outcome")
        self.exit_code = _integer(body, "exit_code")
        self.signal = _integer(body, "signal")
        self.step = _integer(body, "step")
        self.message = _text(body, "message")[:4000]
        self.last_seq = _integer(body, "last_seq") or 0

    def event(self, attempt: int, row: AttemptRow) -> AttemptEnded:
        return AttemptEnded(
            attempt=attempt,
            outcome=self.outcome,
            exit_code=self.exit_code,
            signal=self.signal,
            message=self.message,
            step=self.step,
            marks=row.marks,
        )


def read_ending(body: Mapping[str, Any]) -> Ending:
    ending = Ending(body)
    if ending.outcome not in OUTCOMES | {EVIDENCE_ONLY}:
        raise InvalidReport(f"{ending.outcome!r} is not an outcome")
    if ending.outcome == "exited" and ending.exit_code is None and ending.signal is None:
        raise InvalidReport("an exit needs its code or its signal; a missing code is not a success")
    return ending


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidReport(f"{name} must be text")
    return value or ""


def _integer(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    if value is not None and not whole:
        raise InvalidReport(f"{name} must be a whole number")
    return value
