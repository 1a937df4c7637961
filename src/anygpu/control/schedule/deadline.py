"""Choose between spot and on-demand for jobs with a deadline, when they start and while they run.

`DeadlineTracker` remembers the spot availability for each job, and `DeadlineChecker` moves running jobs. The
functions are pure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.progress import (
    checkpoint_interval_s,
    deadline_ms,
    expected_training_s,
    remaining_s,
    startup_s,
    unsaved_s,
)
from anygpu.control.reconcile.verdict import failure_of
from anygpu.control.record import EventRecorder
from anygpu.control.resume import can_resume
from anygpu.control.schedule.candidates import CandidateSource
from anygpu.events.facts import PLANNED_STOPS, Blame, Failure
from anygpu.events.offers import MICROUSD, Offer
from anygpu.events.types import AttemptLost, Event, StopRequested
from anygpu.events.view import JobView
from anygpu.plan.hardware import gpus
from anygpu.plan.offers.fit import NO_RESUME_PATH
from anygpu.plan.offers.selection import FitResult, Plan
from anygpu.plan.predict.step_time import gpu_slowdown, multi_gpu_speedup
from anygpu.plan.spot.availability import AvailabilityInterval, SpotAvailability
from anygpu.plan.spot.policy import (
    ON_DEMAND,
    WAIT,
    MachineChoice,
    SpotDecision,
    SpotJob,
    TickState,
    choose_machine,
    slack_s,
)
from anygpu.store.journal import Guard, Journal

FAILED_BY_PLACE = (Blame.LAUNCH, Blame.PREEMPTION)
MAX_BLOCKED_TICKS = 16.0
FRESH_S = 60.0  # a move that only saves money happens at most this long after a checkpoint
MoveReason = Literal["deadline", "cheaper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotChoices:
    """The offers to choose from.

    `spot` has one spot offer per zone; `on_demand` is the offer that guarantees the deadline.
    """

    spot: Mapping[str, FitResult]
    on_demand: FitResult

    @property
    def available(self) -> tuple[str, ...]:
        return tuple(
            zone for zone, ranked in self.spot.items() if not ranked.wait_reason and not ranked.avoided
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSituation:
    """The state of a job at one moment, as input for the spot policy."""

    job: SpotJob
    at: TickState
    deadline_at_ms: int
    now_ms: int

    @property
    def spare_s(self) -> float:
        return slack_s(self.job, self.at)

    @property
    def latest_ms(self) -> int:
        """The latest time until which the job can wait and still have time to try spot."""
        return self.now_ms + round((self.spare_s - self.at.tick_s - _trial_s(self.job, self.at)) * 1000)


def has_deadline(view: JobView) -> bool:
    """Return whether the job has a deadline and may use spot."""
    limits = view.spec.limits
    timed = limits.deadline_s is not None or limits.deadline_at is not None
    return timed and view.spec.placement.interruptible != "no"


def spot_choices(plan: Plan) -> SpotChoices | None:
    """Return the spot and on-demand offers to choose from.

    None if no on-demand offer fits, because spot alone cannot guarantee a deadline. Spot offers that are
    slower or not cheaper than on-demand are left out.
    """
    fitting = [ranked for ranked in plan.ranked if not ranked.rejection]
    lasting = [ranked for ranked in fitting if not ranked.offer.interruptible]
    if not lasting:
        return None
    on_demand = next((ranked for ranked in lasting if not ranked.wait_reason), lasting[0])
    spot: dict[str, FitResult] = {}
    for ranked in fitting:
        if ranked.offer.interruptible and _beats_on_demand(ranked.offer, on_demand.offer):
            spot.setdefault(zone_name(ranked.offer), ranked)
    return SpotChoices(spot=spot, on_demand=on_demand)


def zone_name(offer: Offer) -> str:
    return " ".join(part for part in (offer.backend, offer.zone or offer.region, offer.name) if part)


def spot_situation(
    view: JobView, choices: SpotChoices, now_ms: int, policy: ControlPolicy
) -> SpotSituation | str:
    """Return the input for the spot policy, or a text that says why spot is too risky for the deadline."""
    by_ms, whole_s = deadline_ms(view), expected_training_s(view)
    if by_ms is None or whole_s is None:
        return "its duration is unknown and it has a deadline; set placement.expected_duration to allow spot"
    if not can_resume(view):
        return f"it has a deadline, and {NO_RESUME_PATH} to allow spot"
    unsaved = unsaved_s(view, now_ms)
    again_s = max(checkpoint_interval_s(view), unsaved)
    restart_s = startup_s(view, policy) + again_s
    job = SpotJob(
        work_s=whole_s,
        deadline_s=(by_ms - view.submitted_at_ms) / 1000,
        restart_s=restart_s,
        on_demand_usd_per_hour=_on_demand_price(view, choices),
        spot_usd_per_hour=_spot_prices(view, choices),
        detection_s=max_recovery_s(choices.on_demand.offer, policy),
    )
    running = running_on(view)
    at = TickState(
        now_s=(now_ms - view.submitted_at_ms) / 1000,
        work_left_s=max(0.0, remaining_s(view, whole_s) - unsaved),
        available=available_zones(view, choices, now_ms, policy),
        running=running,
        starting_s=_starting_s(view, now_ms, policy),
        tick_s=policy.max_decision_delay_s if running.kind == "spot" else _tick_s(restart_s, policy),
    )
    return SpotSituation(job=job, at=at, deadline_at_ms=by_ms, now_ms=now_ms)


def decide_spot(situation: SpotSituation, availability: SpotAvailability) -> SpotDecision:
    """Return the decision of the spot policy.

    If the policy would wait for spot but no time is left to try it, choose on-demand.
    """
    decision = choose_machine(
        situation.job, situation.at, with_new_zones(availability, situation.at.available)
    )
    if decision.choice == WAIT and situation.latest_ms < situation.now_ms:
        return SpotDecision(ON_DEMAND, "no time is left to try spot")
    return decision


def with_new_zones(availability: SpotAvailability, available: tuple[str, ...]) -> SpotAvailability:
    """Return the record of spot availability after a check that found these zones available.

    A zone that was unavailable at the last check and is available now counts as available since this check.
    """
    came = {
        zone: observed.observe(continues=True)
        for zone, observed in availability.zones.items()
        if zone in available and not observed.age
    }
    return replace(availability, zones={**availability.zones, **came}) if came else availability


def apply_decision(
    plan: Plan, choices: SpotChoices, decision: SpotDecision, situation: SpotSituation | None
) -> Plan:
    """Return the plan, changed by the decision of the spot policy.

    If the policy chose spot, the chosen offer comes first. If it chose on-demand, spot offers have to wait. If it chose
    to wait, all offers have to wait.
    """
    if decision.choice.kind == "spot":
        chosen = choices.spot[decision.choice.zone]
        return Plan(ranked=(chosen, *(ranked for ranked in plan.ranked if ranked is not chosen)))
    if decision.choice == ON_DEMAND or situation is None:
        if choices.on_demand.wait_reason:
            return plan  # spot is better than no machine
        return Plan(
            ranked=tuple(
                _with_wait_reason(r, decision.reason) if r.offer.interruptible else r for r in plan.ranked
            )
        )
    until = (
        f"waits for spot until {_clock(situation.latest_ms, situation.now_ms)} at the latest; then on-demand"
    )
    return Plan(ranked=tuple(_with_wait_reason(ranked, until) for ranked in plan.ranked))


def move_reason(
    view: JobView, choices: SpotChoices, decision: SpotDecision, now_ms: int
) -> MoveReason | None:
    """Return why a running job should move, or None if the job should stay on its machine."""
    live = view.live_attempt
    if live is None or live.stop_reason is not None or view.cancel_requested or view.migrate_to:
        return None
    if live.offer.interruptible:
        return "deadline" if decision.choice == ON_DEMAND and not choices.on_demand.wait_reason else None
    return "cheaper" if decision.choice.kind == "spot" and has_fresh_checkpoint(view, now_ms) else None


def has_fresh_checkpoint(view: JobView, now_ms: int) -> bool:
    """Return whether the current attempt has just saved a checkpoint, so that a stop loses little work."""
    live, newest = view.live_attempt, view.newest_checkpoint
    own = live is not None and newest is not None and newest.attempt == live.number
    return own and unsaved_s(view, now_ms) <= FRESH_S


def move_events(view: JobView, number: int, reason: MoveReason) -> list[Event]:
    """Return the events that move a job to another machine.

    An attempt whose agent runs is asked to save and stop; an attempt whose agent has not connected yet counts as lost.
    """
    live = view.live_attempt
    if live is None or live.number != number or live.stop_reason is not None or view.cancel_requested:
        return []
    if live.claimant is not None:
        return [StopRequested(attempt=number, reason=reason)]
    text = "training had not started, and the deadline requires a machine that cannot be preempted"
    failure = Failure(code=reason, message=text, blame=Blame.PREEMPTION)
    return [AttemptLost(attempt=number, evidence=text, failure=failure)]


def next_check_s(situation: SpotSituation, policy: ControlPolicy) -> float:
    """Return the seconds until the next check of a running job.

    For a job on a spot machine, the next check comes before the job runs out of time to finish on demand.
    """
    if situation.at.running.kind != "spot":
        return policy.spot_check_every_s
    return min(
        policy.spot_check_every_s, max(policy.retry_interval_s, situation.spare_s - situation.job.detection_s)
    )


def max_recovery_s(offer: Offer, policy: ControlPolicy) -> float:
    """Return the longest time from losing a machine to the next launch.

    It covers the detection, the stop, the wait until the old attempt can save nothing more, and the pause before a
    retry.
    """
    # Until the provider confirms that the machine is gone, or the agent's lease expires, whichever is sooner.
    fence_s = min(2 * policy.absence_s, policy.silence_limit_for(offer))
    return policy.max_decision_delay_s + policy.stop_allowance_s + fence_s + policy.retry_max_s


def running_on(view: JobView) -> MachineChoice:
    live = view.live_attempt
    if live is None:
        return WAIT
    return MachineChoice("spot", zone_name(live.offer)) if live.offer.interruptible else ON_DEMAND


def available_zones(
    view: JobView, choices: SpotChoices, now_ms: int, policy: ControlPolicy
) -> tuple[str, ...]:
    """Return the zones in which the job can use spot now.

    Zones with spot offers count unless they have just failed this job. The zone in which the job runs is
    always included.
    """
    here = running_on(view)
    firm = here == ON_DEMAND
    blocked = {
        zone
        for zone, (since_ms, until_ms) in _blocked_zones(view, policy, firm=firm).items()
        if since_ms <= now_ms <= until_ms  # ignores times in the future, after the clock was set back
    }
    return tuple(sorted({zone for zone in choices.available if zone not in blocked} | {here.zone} - {""}))


def _blocked_zones(view: JobView, policy: ControlPolicy, *, firm: bool) -> dict[str, tuple[int, float]]:
    """Return the zones that failed this job, each with the period in which the zone counts as unavailable.

    The period is one check interval. If the job runs on-demand (`firm`), the period doubles with each
    consecutive failure.
    """
    times: dict[str, tuple[int, float]] = {}
    streaks: Counter[str] = Counter()
    for attempt in view.attempts:
        zone, failure = zone_name(attempt.offer), failure_of(view, attempt) if attempt.is_over else None
        if attempt.training_at_ms is not None:
            streaks[zone] = 0
        if failure is None or failure.code in PLANNED_STOPS or failure.blame not in FAILED_BY_PLACE:
            continue
        streaks[zone] += 1
        ticks = min(MAX_BLOCKED_TICKS, 2.0 ** streaks[zone]) if firm else 1.0
        since_ms = attempt.ended_at_ms or 0
        times[zone] = since_ms, since_ms + ticks * policy.spot_check_every_s * 1000
    return times


def _starting_s(view: JobView, now_ms: int, policy: ControlPolicy) -> float:
    live = view.live_attempt
    if live is None or live.training_at_ms is not None:
        return 0.0
    return max(0.0, startup_s(view, policy) - (now_ms - live.launching_at_ms) / 1000)


def _tick_s(restart_s: float, policy: ControlPolicy) -> float:
    return min(policy.spot_check_every_s, max(policy.max_decision_delay_s, restart_s))


def _trial_s(job: SpotJob, at: TickState) -> float:
    return min(at.tick_s, job.restart_s) + job.detection_s


def _with_wait_reason(ranked: FitResult, why_not: str) -> FitResult:
    return ranked if ranked.rejection or ranked.wait_reason else replace(ranked, wait_reason=why_not)


def _beats_on_demand(spot: Offer, on_demand: Offer) -> bool:
    return spot.price_microusd_per_hour < on_demand.price_microusd_per_hour and _is_as_fast(spot, on_demand)


def _is_as_fast(one: Offer, other: Offer) -> bool:
    """Return whether offer `one` is at least as fast as `other`.

    A slower offer would endanger the deadline.
    """
    if gpus.canonical_name(one.gpu_kind) == gpus.canonical_name(other.gpu_kind):
        return one.gpu_count >= other.gpu_count and (one.gpu_count > 0 or one.cpus >= other.cpus)
    here = gpus.spec(one.gpu_kind, memory_gib=one.gpu_memory_gib)
    there = gpus.spec(other.gpu_kind, memory_gib=other.gpu_memory_gib)
    if here is None or there is None:
        return False
    longer = (
        gpu_slowdown(here, there)
        * multi_gpu_speedup(max(1, other.gpu_count))
        / multi_gpu_speedup(max(1, one.gpu_count))
    )
    return longer <= 1


def _on_demand_price(view: JobView, choices: SpotChoices) -> float:
    """Return the on-demand price for the job.

    If the job runs on-demand, return the price of its own machine, else the price of the on-demand offer.
    """
    live = view.live_attempt
    paid = None if live is None or live.offer.interruptible else live.node_hourly_microusd
    return _usd(choices.on_demand.offer) if paid is None else paid / MICROUSD


def _spot_prices(view: JobView, choices: SpotChoices) -> dict[str, float]:
    live = view.live_attempt
    here = (
        {zone_name(live.offer): live.node_hourly_microusd / MICROUSD}
        if live is not None and live.offer.interruptible
        else {}
    )
    return {zone: _usd(ranked.offer) for zone, ranked in choices.spot.items()} | here


def _usd(offer: Offer) -> float:
    return offer.price_microusd_per_hour / MICROUSD


def _clock(at_ms: int, now_ms: int) -> str:
    at, now = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (at_ms, now_ms))
    return at.strftime("%H:%M UTC" if at.date() == now.date() else "%Y-%m-%d %H:%M UTC")


@dataclass(slots=True)
class _SpotHistory:
    """The spot availability observed for one job, and the time of the next check."""

    availability: SpotAvailability
    observed_at: float = float("-inf")
    due_at: float = float("-inf")  # when to check the running job again
    stage: object = None  # attempt and prediction at the last check; a change makes the job due at once
    wants_spot: bool = False  # move to spot after the next checkpoint


class DeadlineTracker:
    """Applies the spot policy to waiting and running jobs, and remembers the availability observed so far."""

    def __init__(self, clock: Clock, policy: ControlPolicy) -> None:
        self._clock = clock
        self._policy = policy
        self._histories: dict[str, _SpotHistory] = {}

    def apply_policy(self, view: JobView, plan: Plan) -> Plan:
        """Return the plan of a waiting job, changed as the spot policy decides.

        A plan without both spot and on-demand offers is returned unchanged.
        """
        choices = spot_choices(plan)
        if choices is None or not choices.spot or plan.choice is None or view.migrate_to:
            return plan
        now_ms = self._clock.wall_ms()
        situation = spot_situation(view, choices, now_ms, self._policy)
        if isinstance(situation, str):
            return apply_decision(plan, choices, SpotDecision(ON_DEMAND, situation), None)
        return apply_decision(plan, choices, self._decide(view, choices, situation), situation)

    def check_move(self, view: JobView, plan: Plan) -> MoveReason | None:
        """Return why a running job should save, stop and move to another machine.

        None if the job should stay.
        """
        history, choices = self._history(view), spot_choices(plan)
        history.due_at, history.wants_spot = self._clock.monotonic() + self._policy.spot_check_every_s, False
        history.stage = _stage(view)
        if choices is None:
            return None
        now_ms = self._clock.wall_ms()
        situation = spot_situation(view, choices, now_ms, self._policy)
        if isinstance(situation, str):
            return None
        history.due_at = self._clock.monotonic() + next_check_s(situation, self._policy)
        decision = self._decide(view, choices, situation)
        history.wants_spot = situation.at.running == ON_DEMAND and decision.choice.kind == "spot"
        return move_reason(view, choices, decision, now_ms)

    def next_at(self, views: Iterable[JobView]) -> float:
        """Return when the first of these jobs is due for a check, by the monotonic clock."""
        return min((self._due(view) for view in views), default=float("inf"))

    def due(self, views: Iterable[JobView]) -> list[JobView]:
        now = self._clock.monotonic()
        return [view for view in views if self._due(view) <= now]

    def keep_only(self, live: Set[str]) -> None:
        for job_id in [*self._histories.keys() - live]:
            del self._histories[job_id]

    def _due(self, view: JobView) -> float:
        live = view.live_attempt
        if live is None or live.stop_reason is not None:
            return float("inf")
        history = self._history(view)
        fresh = history.wants_spot and has_fresh_checkpoint(view, self._clock.wall_ms())
        return float("-inf") if fresh or history.stage != _stage(view) else history.due_at

    def _decide(self, view: JobView, choices: SpotChoices, situation: SpotSituation) -> SpotDecision:
        history = self._history(view)
        zones = {
            zone: AvailabilityInterval()
            for zone in situation.job.spot_usd_per_hour
            if zone not in history.availability.zones
        }
        if zones:
            history.availability = replace(
                history.availability, zones={**history.availability.zones, **zones}
            )
        if self._clock.monotonic() - history.observed_at >= self._policy.spot_check_every_s:
            history.observed_at = self._clock.monotonic()
            history.availability = history.availability.observe(situation.at.available)
        return decide_spot(situation, history.availability)

    def _history(self, view: JobView) -> _SpotHistory:
        unknown = SpotAvailability.initial((), self._policy.spot_check_every_s)
        return self._histories.setdefault(view.id, _SpotHistory(availability=unknown))


def _stage(view: JobView) -> object:
    live = view.live_attempt
    return live and (live.number, live.training_at_ms), view.prediction


class DeadlineChecker:
    """Moves running jobs to another machine when their deadline requires it or when that is cheaper."""

    def __init__(
        self, journal: Journal, offers: CandidateSource, tracker: DeadlineTracker, clock: Clock
    ) -> None:
        self._recorder = EventRecorder(journal, clock)
        self._offers = offers
        self._tracker = tracker
        self._clock = clock

    async def run(self, views: Sequence[JobView], running: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Ask running jobs to move when their deadline requires it or when that is cheaper.

        Return the jobs that changed.
        """
        now_ms = self._clock.wall_ms()
        candidates = self._offers.candidates(views)
        changed = []
        for view in running:
            live = view.live_attempt
            if live is None:
                continue
            # The limit on paid attempts is ignored: the current attempt will have ended before the next starts.
            now = replace(await candidates.constraints(view, now_ms), paid_wait_reason="")
            reason = self._tracker.check_move(view, await candidates.plan(view, now))
            after = reason and await self._recorder.record(
                view, partial(move_events, number=live.number, reason=reason), guard
            )
            if after:
                changed.append(after)
        return changed
