"""Given what a job is and what was seen of it: which facts follow, and which calls to make. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from anygpu.backends.contract import Observation, State
from anygpu.control.budget import budget_failure, is_over_budget
from anygpu.control.hold import hold_s, wants_hold
from anygpu.control.money import spent, usage_of
from anygpu.control.policy import Policy
from anygpu.control.verdict import (
    Cancelled,
    Completed,
    Failed,
    Retry,
    blame_for_stopping,
    resume_point,
    retry_delay_s,
    verdict,
    work_lost_s,
)
from anygpu.events.facts import Blame, Failure, Marks
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The newest look at an attempt through its provider."""

    observation: Observation | None = None  # None: the look itself failed
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What this control process has seen of one attempt, by its own monotonic clock."""

    silent_s: float = 0  # since the last sign of life, or since we began to watch
    silent_probes: int = 0  # looks since the last sign of life
    claimed: bool = True  # whether it had an agent whose silence could be seen
    probe: Probe | None = None
    books: Observation | None = None  # the newest look in which the provider said since when it bills
    absent_s: float = 0  # how long the provider has not listed it
    absent_probes: int = 0  # in how many looks in a row
    state_s: float = 0  # since the attempt's state was first seen as it is
    wanted_end_s: float = 0  # since cancel or stop was first seen
    training_s: float = 0
    billed_s: float = 0  # since its machine may have begun to cost
    held_s: float = 0  # since it was first seen to be held
    launch_failures: int = 0  # calls whose outcome is unknown
    refusal: Failure | None = None  # the provider definitely did not launch it
    terminated: bool = False  # terminate was called and returned
    stranded: str = ""  # why nobody can look after it
    marks: Marks = field(default_factory=Marks)


NOTHING = Seen()


def events_due(
    view: JobView, seen: dict[int, Seen], policy: Policy, jitter: float, now_ms: int = 0
) -> list[Event]:
    """The facts that follow from what was seen. Evaluated inside the journal's transaction.

    `now_ms` only ever becomes part of an event: what is due is decided by what was seen.
    """
    if view.terminal:
        return []
    live = view.live_attempt
    over = [a for a in view.attempts if a.over and not a.released]
    gone = [a for a in over if _is_gone(seen.get(a.number, NOTHING), policy)]
    released = [_released(a, seen[a.number], now_ms) for a in gone]
    events: list[Event] = [*_noticed(view, gone, seen), *released]
    if live is not None:
        return [*events, *_live_events(view, live, seen, policy)]
    all_released, cost = len(gone) == len(over), view.cost_microusd + sum(map(_cost, released))
    after = _after_attempt(view, all_released=all_released, cost=cost, policy=policy, jitter=jitter)
    return [*events, *_holding(view, gone, seen, policy, now_ms), *after]


def _noticed(view: JobView, gone: list[AttemptView], seen: dict[int, Seen]) -> Iterator[Event]:
    """What is worth remembering of machines that are still there."""
    for attempt in (a for a in view.attempts if not a.released and a not in gone):
        yield from _billing(attempt, seen.get(attempt.number, NOTHING))
        reason = seen.get(attempt.number, NOTHING).stranded
        if reason and attempt.stranded != reason:
            yield AttemptStranded(attempt=attempt.number, reason=reason)


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
    observation = look.probe.observation if look.probe else None
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
    failure = _death(view, attempt, look, policy) or _spent(view, attempt, seen, policy)
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
    if _is_to_move(view, attempt):
        return "migrate"
    return "handover" if _is_old(attempt, look, policy) else ""


def _is_to_move(view: JobView, attempt: AttemptView) -> bool:
    return view.migrate_to not in ("", attempt.offer.backend)


def _is_old(attempt: AttemptView, seen: Seen, policy: Policy) -> bool:
    """Its machine will soon have lived as long as machines there may."""
    longest_s = attempt.offer.max_run_s
    if longest_s is None:
        return False
    return seen.billed_s > longest_s - min(policy.handover_s, longest_s / 4)


def _death(view: JobView, attempt: AttemptView, seen: Seen, policy: Policy) -> Failure | None:
    """Why the attempt counts as over without its agent's word, or None while it may be alive."""
    if seen.refusal is not None:
        return seen.refusal
    if view.cancel_requested and (attempt.claimant is None or seen.wanted_end_s > policy.cancel_limit_s):
        return Failure(code="cancelled", message="cancelled before it ended by itself", blame=Blame.PLATFORM)
    if attempt.claimant is None and _is_to_move(view, attempt):
        text = f"it is to go on at {view.migrate_to}"
        return Failure(code="migrate", message=text, blame=Blame.PREEMPTION)
    if seen.stranded and attempt.handle is None and attempt.claimant is None:
        return Failure(code="backend_missing", message=seen.stranded, blame=Blame.LAUNCH)
    if seen.launch_failures >= policy.launch_tries:
        text = f"{seen.launch_failures} launch calls without an answer"
        return Failure(code="launch_unknown", message=text, blame=Blame.LAUNCH)
    return _observed_death(attempt, seen, policy) or _silent_death(attempt, seen, policy)


def _observed_death(attempt: AttemptView, seen: Seen, policy: Policy) -> Failure | None:
    observation = seen.probe.observation if seen.probe else None
    if observation is None or (attempt.handle is None and attempt.claimant is None):
        return None
    if observation.failure is not None and attempt.claimant is None:
        return observation.failure
    # Lists lag and leave things out: an agent that speaks is there, whatever the list says.
    absent = _is_absent(seen, policy) and seen.silent_s >= policy.absence_s
    if observation.state not in (State.GONE, State.EXITED) and not absent:
        return None
    blame = Blame.PREEMPTION if observation.preempted else Blame.INFRASTRUCTURE
    code = "preempted" if observation.preempted else "machine_lost"
    return Failure(
        code=code, message=f"{observation.state}: {observation.detail or 'ended by itself'}", blame=blame
    )


def _silent_death(attempt: AttemptView, seen: Seen, policy: Policy) -> Failure | None:
    enough = seen.silent_probes >= policy.probes_before_lost
    if attempt.claimant is None:
        if attempt.handle is not None and seen.state_s > policy.claim_limit_s and enough:
            text = f"no word from the agent in {seen.state_s:.0f} s after launch"
            return Failure(code="never_started", message=text, blame=Blame.LAUNCH)
        return None
    if attempt.stop_reason is not None and seen.wanted_end_s > policy.stop_limit_s:
        text = f"asked to stop ({attempt.stop_reason}) {seen.wanted_end_s:.0f} s ago"
        blame = blame_for_stopping(attempt.stop_reason)
        return Failure(code=attempt.stop_reason, message=text, blame=blame)
    if seen.claimed and seen.silent_s > policy.silence_for(attempt.offer) and enough:
        text = f"silent for {seen.silent_s:.0f} s and {seen.silent_probes} probes; {_words(seen.probe)}"
        return Failure(code="silent", message=text, blame=Blame.INFRASTRUCTURE)
    return None


def _words(probe: Probe | None) -> str:
    if probe is None:
        return "not probed"
    if probe.observation is None:
        return f"the last probe failed: {probe.detail}"
    return f"the provider says {probe.observation.state}"


def _out_of_time(view: JobView, attempt: AttemptView, seen: Seen, policy: Policy) -> bool:
    """The agent keeps the time limit itself; this is the net under it."""
    limit_s = view.spec.limits.timeout_s
    if limit_s is None or attempt.training_at_ms is None:
        return False
    return seen.training_s > limit_s + policy.silence_for(attempt.offer)


def _has_notice(seen: Seen) -> bool:
    """The provider will take the machine back: what was trained can still be saved."""
    observation = seen.probe.observation if seen.probe else None
    return observation is not None and observation.preempted


def _is_gone(seen: Seen, policy: Policy) -> bool:
    observation = seen.probe.observation if seen.probe else None
    if observation is None or not seen.terminated:
        return False
    return observation.state is State.GONE or _is_absent(seen, policy)


def _is_absent(seen: Seen, policy: Policy) -> bool:
    """Lists lag, and leave things out now and then: it takes both time and a number of looks."""
    return seen.absent_s >= policy.absence_s and seen.absent_probes >= policy.probes_before_lost


def _released(attempt: AttemptView, seen: Seen, now_ms: int) -> AttemptReleased:
    usage = usage_of(attempt, seen.books, now_ms - round(seen.absent_s * 1000))
    return AttemptReleased(attempt=attempt.number, evidence=_words(seen.probe), usage=usage)


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
