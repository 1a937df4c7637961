"""The reasons to stop a job, and for each reason the steps (stop file, SIGTERM, SIGKILL) and their times.

All functions are pure.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.run.preemption import PreemptionNotice

    Step = tuple[float, str]  # when (monotonic), and one of FLAG, TERM, KILL, ABANDON

FLAG, TERM, KILL, ABANDON = "flag", "term", "kill", "abandon"
ABANDON_AFTER_S = 30.0
# Fractions of the time until the machine is taken away: SIGTERM, SIGKILL. The rest is for uploads and the last report.
TERM_FRACTION, KILL_FRACTION = 0.35, 0.5
REPORT_FRACTION, MAX_REPORT_S = 0.1, 5.0
SHORT_NOTICE_S = 25.0  # less than 30 s, because some time passes before a 30 s notice is read
PEER = "peer"  # another node has failed, so that this one cannot continue


def describe_reason(reason: str) -> str:
    """Return the reason to stop as text for the job's log."""
    return "another node of the job has failed" if reason == PEER else reason


class StopRequest:
    """Why a job is stopped, and the stop steps that are not done yet."""

    __slots__ = ("is_short_notice", "outcome", "publish_until", "reason", "steps", "urgency")

    def __init__(self, outcome: str, reason: str, urgency: int, steps: list[Step]) -> None:
        self.outcome = outcome
        self.reason = reason
        self.urgency = urgency
        self.steps = steps
        self.publish_until: float | None = None  # uploads must be finished by then (monotonic)
        self.is_short_notice = False  # there may be no time for the script to save

    def take_due(self, now: float) -> list[str]:
        ready = [action for at, action in self.steps if at <= now]
        self.steps = [(at, action) for at, action in self.steps if at > now]
        return ready

    def replaces(self, other: StopRequest) -> bool:
        """Return whether this request is more urgent than another one, or leaves less time for uploads."""
        if self.urgency != other.urgency or self.publish_until is None or other.publish_until is None:
            return self.urgency > other.urgency
        return self.publish_until < other.publish_until - 1.0

    @property
    def is_between_signals(self) -> bool:
        """Return whether SIGTERM was sent, and SIGKILL was not."""
        left = [action for _, action in self.steps]
        return TERM not in left and KILL in left

    @property
    def has_killed(self) -> bool:
        """Return whether SIGKILL was sent."""
        return all(action != KILL for _, action in self.steps)

    @property
    def last_at(self) -> float:
        """When the last step is due (monotonic)."""
        return max((at for at, _ in self.steps), default=0.0)

    @property
    def next_at(self) -> float | None:
        return self.steps[0][0] if self.steps else None


def order_stop(order: dict[str, Any], now: float, grace_s: float) -> StopRequest:
    if order["kind"] == "cancel":
        return StopRequest("cancelled", "cancel", 3, _immediate_steps(now, grace_s))
    reason = str(order.get("reason") or "stop")
    if reason == PEER:
        return StopRequest("stopped", reason, 2, _immediate_steps(now, grace_s))
    return StopRequest(
        "timeout" if reason == "timeout" else "stopped", reason, 1, _graceful_steps(now, grace_s)
    )


def timeout_stop(now: float, grace_s: float) -> StopRequest:
    return StopRequest("timeout", "timeout", 1, _graceful_steps(now, grace_s))


def lost_lease_stop(now: float, grace_s: float) -> StopRequest:
    return StopRequest(
        "lease_lost",
        "the agent could not reach the server for so long that it may no longer run the job (its lease "
        "ended)",
        4,
        _immediate_steps(now, grace_s),
    )


def rejection_stop(now: float, grace_s: float, refusal: str) -> StopRequest:
    return StopRequest(
        "lease_lost",
        f"the server says that this attempt has ended or is unknown: {refusal}",
        4,
        _immediate_steps(now, grace_s),
    )


def signal_stop(now: float, grace_s: float) -> StopRequest:
    """Build the stop request for a SIGTERM that the agent received.

    The agent receives it when the machine shuts down, or when the backend stops the attempt.
    """
    return StopRequest("stopped", "preempt", 1, _graceful_steps(now, grace_s))


def preemption_stop(now: float, notice: PreemptionNotice) -> StopRequest:
    """Build the stop request for a preemption at a known time.

    The job is ended early enough that results can be uploaded before the machine is taken away.
    """
    left_s = max(0.0, notice.at - now)
    steps = [
        (now, FLAG),
        (now + left_s * TERM_FRACTION, TERM),
        (now + left_s * KILL_FRACTION, KILL),
        (notice.at + ABANDON_AFTER_S, ABANDON),
    ]
    stop = StopRequest(
        "stopped",
        f"preempt: the provider takes the machine away in {left_s:.0f} s; {notice.source}",
        2,
        steps,
    )
    stop.publish_until = notice.at - min(left_s * REPORT_FRACTION, MAX_REPORT_S)
    stop.is_short_notice = left_s < SHORT_NOTICE_S
    return stop


def _graceful_steps(now: float, grace_s: float) -> list[Step]:
    return [
        (now, FLAG),
        (now + grace_s, TERM),
        (now + 2 * grace_s, KILL),
        (now + 2 * grace_s + ABANDON_AFTER_S, ABANDON),
    ]


def _immediate_steps(now: float, grace_s: float) -> list[Step]:
    return [(now, FLAG), (now, TERM), (now + grace_s, KILL), (now + grace_s + ABANDON_AFTER_S, ABANDON)]
