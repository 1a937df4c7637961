"""How a job is ended: which steps, when. Pure, so that its tests are tables."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.notices import Notice

    Step = tuple[float, str]  # when (monotonic), and one of FLAG, TERM, KILL, ABANDON

FLAG, TERM, KILL, ABANDON = "flag", "term", "kill", "abandon"
UNKILLABLE_S = 30.0
# Of the time a provider leaves: the script's until SIGTERM, until SIGKILL; the rest is for what it saved to get away.
ASKING_SHARE, ENDING_SHARE = 0.35, 0.5
REPORTING_SHARE, REPORTING_MOST_S = 0.1, 5.0
ENOUGH_S = 25.0  # a notice of 30 s has become a little shorter when it is heard


class Stop:
    """Why the job is being ended, and what is still to be done about it."""

    __slots__ = ("in_haste", "outcome", "reason", "steps", "until", "urgency")

    def __init__(self, outcome: str, reason: str, urgency: int, steps: list[Step]) -> None:
        self.outcome = outcome
        self.reason = reason
        self.urgency = urgency
        self.steps = steps
        self.until: float | None = None  # when everything that is to be saved must have been published
        self.in_haste = False  # there may be no time to wait for what the script saves now

    def due(self, now: float) -> list[str]:
        ready = [action for at, action in self.steps if at <= now]
        self.steps = [(at, action) for at, action in self.steps if at > now]
        return ready

    @property
    def next_at(self) -> float | None:
        return self.steps[0][0] if self.steps else None


def by_order(order: dict[str, Any], now: float, grace_s: float) -> Stop:
    if order["kind"] == "cancel":
        return Stop("cancelled", "cancel", 3, _at_once(now, grace_s))
    reason = str(order.get("reason") or "stop")
    return Stop("timeout" if reason == "timeout" else "stopped", reason, 1, _politely(now, grace_s))


def by_timeout(now: float, grace_s: float) -> Stop:
    return Stop("timeout", "timeout", 1, _politely(now, grace_s))


def by_lost_lease(now: float, grace_s: float) -> Stop:
    return Stop(
        "lease_lost", "the server could not be reached until the lease ended", 4, _at_once(now, grace_s)
    )


def by_rejection(now: float, grace_s: float, said: str) -> Stop:
    return Stop("lease_lost", f"the server no longer knows this attempt: {said}", 4, _at_once(now, grace_s))


def by_signal(now: float, grace_s: float) -> Stop:
    """The machine is going away, or its backend ends us.

    There is little time, and a checkpoint is worth it.
    """
    return Stop("stopped", "preempt", 1, _politely(now, grace_s))


def by_notice(now: float, notice: Notice) -> Stop:
    """The provider has said when the machine goes. The script is asked, then made, to leave time for the uploads."""
    left_s = max(0.0, notice.at - now)
    steps = [
        (now, FLAG),
        (now + left_s * ASKING_SHARE, TERM),
        (now + left_s * ENDING_SHARE, KILL),
        (notice.at + UNKILLABLE_S, ABANDON),
    ]
    stop = Stop("stopped", f"preempt: the machine is taken back in {left_s:.0f} s; {notice.said}", 2, steps)
    stop.until = notice.at - min(left_s * REPORTING_SHARE, REPORTING_MOST_S)
    stop.in_haste = left_s < ENOUGH_S
    return stop


def _politely(now: float, grace_s: float) -> list[Step]:
    return [
        (now, FLAG),
        (now + grace_s, TERM),
        (now + 2 * grace_s, KILL),
        (now + 2 * grace_s + UNKILLABLE_S, ABANDON),
    ]


def _at_once(now: float, grace_s: float) -> list[Step]:
    return [(now, FLAG), (now, TERM), (now + grace_s, KILL), (now + grace_s + UNKILLABLE_S, ABANDON)]
