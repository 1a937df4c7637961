"""Decide which events follow from a job's state and from what was observed about its attempts. Pure functions."""

from collections.abc import Iterator

from anygpu.backends.contract import MachineState
from anygpu.control.accounting.money import budget_failure, cost_so_far, is_over_budget, usage_of
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.liveness import detect_loss, is_absent, is_unreachable, must_migrate
from anygpu.control.reconcile.observation import NOT_OBSERVED, AttemptObservation
from anygpu.control.reconcile.verdict import (
    Cancelled,
    Completed,
    Failed,
    Retry,
    failure_of,
    resume_point,
    retry_delay_s,
    verdict,
    work_lost_s,
)
from anygpu.events.facts import Blame, Failure
from anygpu.events.offers import Offer
from anygpu.events.types import (
    AttemptLost,
    AttemptQueued,
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
from anygpu.printable import printable_line

QUEUE_REASON_AFTER_MS = 3_000  # most attempts leave the queue of their engine sooner
QUEUE_REASON_EVERY_MS = 60_000  # the reason may change with each job that comes or goes
MAX_REASON_LENGTH = 500


def should_hold(view: JobView, attempt: AttemptView) -> bool:
    """Return whether to keep the machine for a while, so that the user can inspect it.

    True if the script failed by its own fault on a remote machine, and the job asks for this.
    """
    if not hold_s(view) or view.cancel_requested or attempt.hold_ended or attempt.is_released:
        return False
    if attempt.lost is not None or not attempt.is_over or not is_remote(attempt.offer):
        return False
    failure = failure_of(view, attempt)
    return failure is not None and failure.blame is Blame.USER


def hold_s(view: JobView) -> float:
    return view.spec.placement.hold_on_failure_s or 0.0


def is_remote(offer: Offer) -> bool:
    """Return whether the offer is a remote machine: a paid one, or one whose agent has a longer lease than usual."""
    return offer.is_paid or offer.lease_s > 0


def events_due(
    view: JobView,
    observations: dict[int, AttemptObservation],
    policy: ControlPolicy,
    jitter: float,
    now_ms: int = 0,
) -> list[Event]:
    """Return the events that follow from what was observed. Called inside the journal's transaction.

    `now_ms`, the wall clock, is only recorded in events, with two exceptions: it decides when a machine is no longer
    kept for inspection, and how often the reason is recorded for which an attempt waits in the queue of its engine.
    """
    if view.is_terminal:
        return []
    live = view.live_attempt
    over = [a for a in view.attempts if a.is_over and not a.is_released]
    gone = [a for a in over if _is_gone(observations.get(a.number, NOT_OBSERVED), policy)]
    released = [_release(a, observations[a.number], now_ms) for a in gone]
    events: list[Event] = [*_machine_events(view, gone, observations, policy), *released]
    if live is not None:
        queued = _queue_events(live, observations.get(live.number, NOT_OBSERVED), now_ms)
        return [*events, *queued, *_live_events(view, live, observations, policy)]
    all_released, cost = len(gone) == len(over), view.cost_microusd + sum(map(_cost, released))
    after = _after_attempt(view, all_released=all_released, cost=cost, policy=policy, jitter=jitter)
    return [*events, *_hold_events(view, gone, observations, policy, now_ms), *after]


def _machine_events(
    view: JobView, gone: list[AttemptView], observations: dict[int, AttemptObservation], policy: ControlPolicy
) -> Iterator[Event]:
    """Yield events about machines that still exist: billing has started, or the backend is unavailable."""
    for attempt in (a for a in view.attempts if not a.is_released and a not in gone):
        observed = observations.get(attempt.number, NOT_OBSERVED)
        yield from _billing_events(attempt, observed)
        if is_unreachable(observed, policy) and attempt.stranded != observed.unreachable:
            yield AttemptStranded(attempt=attempt.number, reason=observed.unreachable)


def _billing_events(attempt: AttemptView, observed: AttemptObservation) -> Iterator[MachineStarted]:
    """Yield the event that billing has started. A longest run is counted from it, also on free machines."""
    books, offer = observed.billing_observation, attempt.offer
    if attempt.started_at_ms is not None or books is None or not (offer.is_paid or offer.max_run_s):
        return
    if books.started_at_ms is not None:
        price = books.price_microusd_per_hour
        yield MachineStarted(
            attempt=attempt.number,
            started_at_ms=books.started_at_ms,
            price_microusd_per_hour=None if price == attempt.offer.price_microusd_per_hour else price,
        )


def _queue_events(attempt: AttemptView, observed: AttemptObservation, now_ms: int) -> Iterator[AttemptQueued]:
    """Yield why an attempt waits in the queue of its engine, if that is new."""
    observation = observed.observation
    if attempt.claimant is not None or observation is None or not observation.queued:
        return
    reason = printable_line(observation.detail)[:MAX_REASON_LENGTH]
    if not reason or reason == attempt.queue_reason:
        return
    first = attempt.queue_reason_at_ms is None
    since_ms = attempt.launching_at_ms if first else attempt.queue_reason_at_ms or 0
    if now_ms - since_ms >= (QUEUE_REASON_AFTER_MS if first else QUEUE_REASON_EVERY_MS):
        yield AttemptQueued(attempt=attempt.number, reason=reason)


def _hold_events(
    view: JobView,
    gone: list[AttemptView],
    observations: dict[int, AttemptObservation],
    policy: ControlPolicy,
    now_ms: int,
) -> Iterator[Event]:
    newest = view.newest_attempt
    if newest is None or newest in gone or not should_hold(view, newest):
        return
    observed = observations.get(newest.number, NOT_OBSERVED)
    observation = observed.observation
    if newest.held_until_ms is None:
        yield HoldStarted(attempt=newest.number, until_ms=now_ms + round(hold_s(view) * 1000))
    elif observation is not None and observation.state is MachineState.GONE:
        yield HoldEnded(attempt=newest.number, reason="gone")
    elif is_over_budget(view, billed_seconds(observations), policy.end_allowance_s):
        yield HoldEnded(attempt=newest.number, reason="budget")
    elif observed.held_s >= hold_s(view) or now_ms >= newest.held_until_ms:
        yield HoldEnded(attempt=newest.number, reason="time")


def _live_events(
    view: JobView, attempt: AttemptView, observations: dict[int, AttemptObservation], policy: ControlPolicy
) -> Iterator[Event]:
    observed = observations.get(attempt.number, NOT_OBSERVED)
    failure = detect_loss(view, attempt, observed, policy) or _budget_failure(
        view, attempt, observations, policy
    )
    if failure is not None:
        yield AttemptLost(
            attempt=attempt.number, evidence=failure.message, failure=failure, marks=observed.marks
        )
    elif attempt.stop_reason is None and (reason := _stop_reason(view, attempt, observations, policy)):
        yield StopRequested(attempt=attempt.number, reason=reason)


def _budget_failure(
    view: JobView, attempt: AttemptView, observations: dict[int, AttemptObservation], policy: ControlPolicy
) -> Failure | None:
    """Return a failure if the budget is used up, else None.

    A training job receives a stop request earlier, so that it can save a checkpoint.
    """
    ahead_s = policy.stop_allowance_s if not attempt.is_claimed else policy.end_allowance_s
    if not attempt.hourly_microusd or not is_over_budget(view, billed_seconds(observations), ahead_s):
        return None
    return budget_failure(view, cost_so_far(view, billed_seconds(observations)))


def _stop_reason(
    view: JobView, attempt: AttemptView, observations: dict[int, AttemptObservation], policy: ControlPolicy
) -> str:
    """Return why the attempt has to save and stop, or an empty string if the attempt may continue."""
    observed = observations.get(attempt.number, NOT_OBSERVED)
    if _is_over_time_limit(view, attempt, observed, policy):
        return "timeout"
    if not attempt.is_claimed:
        return ""
    if _is_being_preempted(observed):
        return "preempt"
    if attempt.hourly_microusd and is_over_budget(
        view, billed_seconds(observations), policy.stop_allowance_s
    ):
        return "budget"
    if must_migrate(view, attempt):
        return "migrate"
    return "handover" if _must_hand_over(attempt, observed, policy) else ""


def _must_hand_over(attempt: AttemptView, observed: AttemptObservation, policy: ControlPolicy) -> bool:
    """Return whether the machine will soon reach its maximum lifetime, so that the job has to move."""
    longest_s = attempt.offer.max_run_s
    if longest_s is None:
        return False
    return observed.billed_s > longest_s - min(policy.handover_s, longest_s / 4)


def _is_over_time_limit(
    view: JobView, attempt: AttemptView, observed: AttemptObservation, policy: ControlPolicy
) -> bool:
    """Return whether the attempt has exceeded the job's time limit.

    The agent enforces the limit too; this check applies if the agent fails to.
    """
    limit_s = policy.time_limit_s(view.spec, attempt.offer)
    if limit_s is None or attempt.training_at_ms is None:
        return False
    return observed.training_s > limit_s + policy.silence_limit_for(attempt.offer)


def _is_being_preempted(observed: AttemptObservation) -> bool:
    """Return whether the provider has announced a preemption.

    The attempt still has time to save a checkpoint.
    """
    observation = observed.observation
    return observation is not None and observation.preempted


def _is_gone(observed: AttemptObservation, policy: ControlPolicy) -> bool:
    observation = observed.observation
    if observation is None or not observed.terminated:
        return False
    return observation.state is MachineState.GONE or is_absent(observed, policy)


def _release(attempt: AttemptView, observed: AttemptObservation, now_ms: int) -> AttemptReleased:
    usage = usage_of(attempt, observed.billing_observation, now_ms - round(observed.absent_ago_s * 1000))
    return AttemptReleased(attempt=attempt.number, evidence=observed.summary, usage=usage)


def _cost(released: AttemptReleased) -> int:
    return released.usage.cost_microusd if released.usage else 0


def billed_seconds(observations: dict[int, AttemptObservation]) -> dict[int, float]:
    return {number: observed.billed_s for number, observed in observations.items()}


def _after_attempt(
    view: JobView, *, all_released: bool, cost: int, policy: ControlPolicy, jitter: float
) -> Iterator[Event]:
    """Yield the events that end the job or start it again, once no attempt of it is live."""
    newest = view.newest_attempt
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
    view: JobView, attempt: AttemptView, retry: Retry, policy: ControlPolicy, jitter: float
) -> RecoveryStarted:
    lost_s = work_lost_s(view, attempt)
    return RecoveryStarted(
        attempt=attempt.number,
        failure=retry.failure,
        delay_s=retry_delay_s(view, retry.failure, policy, jitter),
        work_lost_s=lost_s,
        work_lost_microusd=round(lost_s * attempt.hourly_microusd / 3600),
        resume=resume_point(view),
        counts=retry.counts,
        evidence=attempt.message or retry.failure.message,
    )
