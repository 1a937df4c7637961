"""Given what a job is and what was seen of it: which facts follow, and which calls to make. Pure."""

from collections.abc import Iterator

from anygpu.backends.contract import State
from anygpu.control.budget import budget_failure, is_over_budget
from anygpu.control.death import death, is_absent, is_stranded, is_to_move
from anygpu.control.hold import hold_s, wants_hold
from anygpu.control.money import spent, usage_of
from anygpu.control.policy import Policy
from anygpu.control.seen import NOTHING, Seen
from anygpu.control.verdict import (
    Cancelled,
    Completed,
    Failed,
    Retry,
    resume_point,
    retry_delay_s,
    verdict,
    work_lost_s,
)
from anygpu.events.facts import Failure
from anygpu.events.types import (
    AttemptLost,
    AttemptReleased,
    AttemptStranded,
    Event,
    HoldEnded,
    HoldStarted,
    JobCancelled,
    JobCompleted,
    JobFailed,
    MachineStarted,
    RecoveryStarted,
    StopRequested,
)
from anygpu.events.view import AttemptView, JobView


def events_due(
    view: JobView, seen: dict[int, Seen], policy: Policy, jitter: float, now_ms: int = 0
) -> list[Event]:
    """The facts that follow from what was seen. Evaluated inside the journal's transaction.

    The wall clock (`now_ms`) is for what events say of time; it may end a hold sooner, and decides nothing else.
    """
    if view.terminal:
        return []
    live = view.live_attempt
    over = [a for a in view.attempts if a.over and not a.released]
    gone = [a for a in over if _is_gone(seen.get(a.number, NOTHING), policy)]
    released = [_released(a, seen[a.number], now_ms) for a in gone]
    events: list[Event] = [*_noticed(view, gone, seen, policy), *released]
    if live is not None:
        return [*events, *_live_events(view, live, seen, policy)]
    all_released, cost = len(gone) == len(over), view.cost_microusd + sum(map(_cost, released))
    after = _after_attempt(view, all_released=all_released, cost=cost, policy=policy, jitter=jitter)
    return [*events, *_holding(view, gone, seen, policy, now_ms), *after]


def _noticed(
    view: JobView, gone: list[AttemptView], seen: dict[int, Seen], policy: Policy
) -> Iterator[Event]:
    """What is worth remembering of machines that are still there."""
    for attempt in (a for a in view.attempts if not a.released and a not in gone):
        look = seen.get(attempt.number, NOTHING)
        yield from _billing(attempt, look)
        if is_stranded(look, policy) and attempt.stranded != look.stranded:
            yield AttemptStranded(attempt=attempt.number, reason=look.stranded)


def _billing(attempt: AttemptView, seen: Seen) -> Iterator[MachineStarted]:
    books = seen.books
    if not attempt.offer.paid or attempt.started_at_ms is not None or books is None:
        return
    if books.started_at_ms is not None:
        price = books.price_microusd_per_hour
        yield MachineStarted(
            attempt=attempt.number,
            started_at_ms=books.started_at_ms,
            price_microusd_per_hour=None if price == attempt.offer.price_microusd_per_hour else price,
        )


def _holding(
    view: JobView, gone: list[AttemptView], seen: dict[int, Seen], policy: Policy, now_ms: int
) -> Iterator[Event]:
    newest = view.attempt
    if newest is None or newest in gone or not wants_hold(view, newest):
        return
    look = seen.get(newest.number, NOTHING)
    observation = look.observation
    if newest.held_until_ms is None:
        yield HoldStarted(attempt=newest.number, until_ms=now_ms + round(hold_s(view) * 1000))
    elif observation is not None and observation.state is State.GONE:
        yield HoldEnded(attempt=newest.number, reason="gone")
    elif is_over_budget(view, billed(seen), policy.end_allowance_s):
        yield HoldEnded(attempt=newest.number, reason="budget")
    elif look.held_s >= hold_s(view) or now_ms >= newest.held_until_ms:
        yield HoldEnded(attempt=newest.number, reason="time")


def _live_events(
    view: JobView, attempt: AttemptView, seen: dict[int, Seen], policy: Policy
) -> Iterator[Event]:
    look = seen.get(attempt.number, NOTHING)
    failure = death(view, attempt, look, policy) or _spent(view, attempt, seen, policy)
    if failure is not None:
        yield AttemptLost(attempt=attempt.number, evidence=failure.message, failure=failure, marks=look.marks)
    elif attempt.stop_reason is None and (reason := _why_stop(view, attempt, seen, policy)):
        yield StopRequested(attempt=attempt.number, reason=reason)


def _spent(view: JobView, attempt: AttemptView, seen: dict[int, Seen], policy: Policy) -> Failure | None:
    """A machine that trains is asked to save first; at the very limit, or before it trains, it just ends."""
    ahead_s = policy.stop_allowance_s if attempt.claimant is None else policy.end_allowance_s
    if not attempt.price or not is_over_budget(view, billed(seen), ahead_s):
        return None
    return budget_failure(view, spent(view, billed(seen)))


def _why_stop(view: JobView, attempt: AttemptView, seen: dict[int, Seen], policy: Policy) -> str:
    """Why the attempt shall save and stop; empty when it shall not."""
    look = seen.get(attempt.number, NOTHING)
    if _out_of_time(view, attempt, look, policy):
        return "timeout"
    if attempt.claimant is None:
        return ""
    if _has_notice(look):
        return "preempt"
    if attempt.price and is_over_budget(view, billed(seen), policy.stop_allowance_s):
        return "budget"
    if is_to_move(view, attempt):
        return "migrate"
    return "handover" if _is_old(attempt, look, policy) else ""


def _is_old(attempt: AttemptView, seen: Seen, policy: Policy) -> bool:
    """Its machine will soon have lived as long as machines there may."""
    longest_s = attempt.offer.max_run_s
    if longest_s is None:
        return False
    return seen.billed_s > longest_s - min(policy.handover_s, longest_s / 4)


def _out_of_time(view: JobView, attempt: AttemptView, seen: Seen, policy: Policy) -> bool:
    """The agent keeps the time limit itself; this is the net under it."""
    limit_s = policy.time_limit_s(view.spec, attempt.offer)
    if limit_s is None or attempt.training_at_ms is None:
        return False
    return seen.training_s > limit_s + policy.silence_for(attempt.offer)


def _has_notice(seen: Seen) -> bool:
    """The provider will take the machine back: what was trained can still be saved."""
    observation = seen.observation
    return observation is not None and observation.preempted


def _is_gone(seen: Seen, policy: Policy) -> bool:
    observation = seen.observation
    if observation is None or not seen.terminated:
        return False
    return observation.state is State.GONE or is_absent(seen, policy)


def _released(attempt: AttemptView, seen: Seen, now_ms: int) -> AttemptReleased:
    usage = usage_of(attempt, seen.books, now_ms - round(seen.absent_ago_s * 1000))
    return AttemptReleased(attempt=attempt.number, evidence=seen.words, usage=usage)


def _cost(released: AttemptReleased) -> int:
    return released.usage.cost_microusd if released.usage else 0


def billed(seen: dict[int, Seen]) -> dict[int, float]:
    return {number: look.billed_s for number, look in seen.items()}


def _after_attempt(
    view: JobView, *, all_released: bool, cost: int, policy: Policy, jitter: float
) -> Iterator[Event]:
    """No attempt is live: finish the job, or begin to recover it."""
    newest = view.attempt
    if newest is None or view.cancel_requested:
        if view.cancel_requested and all_released:
            yield JobCancelled()
        return
    if view.recovering_since_ms is not None:
        return
    match verdict(view, newest):
        case Retry() as retry:
            yield _recovery(view, newest, retry, policy, jitter)
        case Completed() if all_released:
            yield JobCompleted()
        case Failed(failure) if all_released:
            yield JobFailed(failure=budget_failure(view, cost) if failure.code == "budget" else failure)
        case Cancelled() if all_released:
            yield JobCancelled()
        case _:
            return


def _recovery(
    view: JobView, attempt: AttemptView, retry: Retry, policy: Policy, jitter: float
) -> RecoveryStarted:
    lost_s = work_lost_s(view, attempt)
    return RecoveryStarted(
        attempt=attempt.number,
        failure=retry.failure,
        delay_s=retry_delay_s(view, retry.failure, policy, jitter),
        work_lost_s=lost_s,
        work_lost_microusd=round(lost_s * attempt.price / 3600),
        resume=resume_point(view),
        counts=retry.counts,
        evidence=attempt.message or retry.failure.message,
    )
