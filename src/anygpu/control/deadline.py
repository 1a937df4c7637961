"""A job with a deadline among spot and on-demand places: what the spot policy says of it now. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from anygpu.control.policy import Policy
from anygpu.control.remaining import deadline_ms, interval_s, left_s, set_up_s, unsaved_s, work_s
from anygpu.control.verdict import PLANNED, why
from anygpu.events.facts import MICROUSD, Blame, Failure, Offer
from anygpu.events.types import AttemptLost, Event, StopRequested
from anygpu.events.view import JobView
from anygpu.plan.hardware import gpus
from anygpu.plan.offers.fit import FitResult, Plan, has_resume_path
from anygpu.plan.predict.step_time import gpu_slowdown, multi_gpu_speedup
from anygpu.plan.spot.availability import SpotAvailability
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

FAILED_BY_PLACE = (Blame.LAUNCH, Blame.PREEMPTION)
MOST_TICKS = 16.0
FRESH_S = 60.0  # a job leaves a machine it need not leave only so soon after a checkpoint
Move = Literal["deadline", "cheaper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What there is to choose from: spot by zone, and the on-demand place the deadline counts on."""

    spot: Mapping[str, FitResult]
    on_demand: FitResult

    @property
    def available(self) -> tuple[str, ...]:
        return tuple(
            zone for zone, ranked in self.spot.items() if not ranked.wait_reason and not ranked.avoided
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One job at one moment, as the policy is asked about it."""

    job: SpotJob
    at: TickState
    by_ms: int  # the deadline
    now_ms: int

    @property
    def spare_s(self) -> float:
        return slack_s(self.job, self.at)

    @property
    def latest_ms(self) -> int:
        """Until then there is time to wait, and to try spot after that."""
        return self.now_ms + round((self.spare_s - self.at.tick_s - _trial_s(self.job, self.at)) * 1000)


def has_deadline(view: JobView) -> bool:
    """Whether spot or not is a question of time for this job, and not of the price alone."""
    limits = view.spec.limits
    timed = limits.deadline_s is not None or limits.deadline_at is not None
    return timed and view.spec.placement.interruptible != "no"


def choices(plan: Plan) -> Choices | None:
    """None when nothing but spot fits: nothing can then protect the deadline. Spot that is no cheaper or is slower
    than on-demand is left out.
    """
    fitting = [ranked for ranked in plan.ranked if not ranked.rejection]
    lasting = [ranked for ranked in fitting if not ranked.offer.interruptible]
    if not lasting:
        return None
    on_demand = next((ranked for ranked in lasting if not ranked.wait_reason), lasting[0])
    spot: dict[str, FitResult] = {}
    for ranked in fitting:
        if ranked.offer.interruptible and _is_worth(ranked.offer, on_demand.offer):
            spot.setdefault(zone_of(ranked.offer), ranked)
    return Choices(spot=spot, on_demand=on_demand)


def zone_of(offer: Offer) -> str:
    return " ".join(part for part in (offer.backend, offer.zone or offer.region, offer.name) if part)


def question(view: JobView, among: Choices, now_ms: int, policy: Policy) -> Question | str:
    """What to ask the policy; or why it is not asked, so that the deadline is not gambled with."""
    by_ms, whole_s = deadline_ms(view), work_s(view)
    if by_ms is None or whole_s is None:
        return "nothing says how long it takes, and it has a deadline; give placement.expected_duration"
    if not (has_resume_path(view.spec) or view.checkpoints or view.past_checkpoints):
        return "nothing shows that it can resume, and it has a deadline; give checkpoint.paths"
    unsaved = unsaved_s(view, now_ms)
    again_s = max(interval_s(view), unsaved)
    restart_s = set_up_s(view, policy) + again_s
    job = SpotJob(
        work_s=whole_s,
        deadline_s=(by_ms - view.submitted_at_ms) / 1000,
        restart_s=restart_s,
        on_demand_usd_per_hour=_on_demand_price(view, among),
        spot_usd_per_hour=_spot_prices(view, among),
        detection_s=blind_s(among.on_demand.offer, policy),
    )
    running = running_on(view)
    at = TickState(
        now_s=(now_ms - view.submitted_at_ms) / 1000,
        work_left_s=max(0.0, left_s(view, whole_s) - unsaved),
        available=seen_available(view, among, now_ms, policy),
        running=running,
        starting_s=_starting_s(view, now_ms, policy),
        tick_s=policy.look_s if running.kind == "spot" else _tick_s(restart_s, policy),
    )
    return Question(job=job, at=at, by_ms=by_ms, now_ms=now_ms)


def answer(asked: Question, weather: SpotAvailability) -> SpotDecision:
    """What the policy says; but nobody waits for spot that could not be tried any more when it comes."""
    said = choose_machine(asked.job, asked.at, newly_come(weather, asked.at.available))
    if said.choice == WAIT and asked.latest_ms < asked.now_ms:
        return SpotDecision(ON_DEMAND, "no time is left to try spot")
    return said


def newly_come(weather: SpotAvailability, available: tuple[str, ...]) -> SpotAvailability:
    """What came up since the last look counts as seen once."""
    came = {
        zone: seen.observe(continues=True)
        for zone, seen in weather.zones.items()
        if zone in available and not seen.age
    }
    return replace(weather, zones={**weather.zones, **came}) if came else weather


def steered(plan: Plan, among: Choices, said: SpotDecision, asked: Question | None) -> Plan:
    """The plan as the policy wants it: the place it names first, or every place waiting."""
    if said.choice.kind == "spot":
        chosen = among.spot[said.choice.zone]
        return Plan(ranked=(chosen, *(ranked for ranked in plan.ranked if ranked is not chosen)))
    if said.choice == ON_DEMAND or asked is None:
        if among.on_demand.wait_reason:
            return plan  # better spot than nothing
        return Plan(
            ranked=tuple(_held_back(r, said.reason) if r.offer.interruptible else r for r in plan.ranked)
        )
    until = f"waits for spot until {_clock(asked.latest_ms, asked.now_ms)} at the latest; then on-demand"
    return Plan(ranked=tuple(_held_back(ranked, until) for ranked in plan.ranked))


def move(view: JobView, among: Choices, said: SpotDecision, now_ms: int) -> Move | None:
    """Whether a job that runs shall go elsewhere, and why."""
    live = view.live_attempt
    if live is None or live.stop_reason is not None or view.cancel_requested or view.migrate_to:
        return None
    if live.offer.interruptible:
        return "deadline" if said.choice == ON_DEMAND and not among.on_demand.wait_reason else None
    return "cheaper" if said.choice.kind == "spot" and is_fresh(view, now_ms) else None


def is_fresh(view: JobView, now_ms: int) -> bool:
    """Hardly anything would have to be done again."""
    live, newest = view.live_attempt, view.newest_checkpoint
    own = live is not None and newest is not None and newest.attempt == live.number
    return own and unsaved_s(view, now_ms) <= FRESH_S


def moving(view: JobView, number: int, reason: Move) -> list[Event]:
    """It saves and stops; one that has not begun is given up. Evaluated inside the journal's transaction."""
    live = view.live_attempt
    if live is None or live.number != number or live.stop_reason is not None or view.cancel_requested:
        return []
    if live.claimant is not None:
        return [StopRequested(attempt=number, reason=reason)]
    text = "it has not begun, and its deadline needs a machine that is not taken back"
    failure = Failure(code=reason, message=text, blame=Blame.PREEMPTION)
    return [AttemptLost(attempt=number, evidence=text, failure=failure)]


def pause_s(asked: Question, policy: Policy) -> float:
    """When to look again at a job that runs: a tick, or sooner when the safety net may be reached by then."""
    if asked.at.running.kind != "spot":
        return policy.spot_tick_s
    return min(policy.spot_tick_s, max(policy.hurry_s, asked.spare_s - asked.job.detection_s))


def blind_s(offer: Offer, policy: Policy) -> float:
    """From a machine's unseen death to the next launch: one look, its stop, its fence and a backoff."""
    # The provider says that it is gone, or its lease has run out, whichever is sooner.
    fence_s = min(2 * policy.absence_s, policy.silence_for(offer))
    return policy.look_s + policy.stop_allowance_s + fence_s + policy.retry_most_s


def running_on(view: JobView) -> MachineChoice:
    live = view.live_attempt
    if live is None:
        return WAIT
    return MachineChoice("spot", zone_of(live.offer)) if live.offer.interruptible else ON_DEMAND


def seen_available(view: JobView, among: Choices, now_ms: int, policy: Policy) -> tuple[str, ...]:
    """Zones that offer spot and have not just failed this job, and the one it runs in."""
    here = running_on(view)
    firm = here == ON_DEMAND
    shut = {
        zone
        for zone, (since_ms, until_ms) in _shut(view, policy, firm=firm).items()
        if since_ms <= now_ms <= until_ms  # what a clock that was set back has yet to see shuts nothing
    }
    return tuple(sorted({zone for zone in among.available if zone not in shut} | {here.zone} - {""}))


def _shut(view: JobView, policy: Policy, *, firm: bool) -> dict[str, tuple[int, float]]:
    """A zone that failed the job counts as gone for a tick. Before a firm machine is left for one that fails again
    and again, twice as long each time.
    """
    times: dict[str, tuple[int, float]] = {}
    streaks: Counter[str] = Counter()
    for attempt in view.attempts:
        zone, failure = zone_of(attempt.offer), why(attempt) if attempt.over else None
        if attempt.training_at_ms is not None:
            streaks[zone] = 0
        if failure is None or failure.code in PLANNED or failure.blame not in FAILED_BY_PLACE:
            continue
        streaks[zone] += 1
        ticks = min(MOST_TICKS, 2.0 ** streaks[zone]) if firm else 1.0
        since_ms = attempt.ended_at_ms or 0
        times[zone] = since_ms, since_ms + ticks * policy.spot_tick_s * 1000
    return times


def _starting_s(view: JobView, now_ms: int, policy: Policy) -> float:
    live = view.live_attempt
    if live is None or live.training_at_ms is not None:
        return 0.0
    return max(0.0, set_up_s(view, policy) - (now_ms - live.launching_at_ms) / 1000)


def _tick_s(restart_s: float, policy: Policy) -> float:
    return min(policy.spot_tick_s, max(policy.look_s, restart_s))


def _trial_s(job: SpotJob, at: TickState) -> float:
    return min(at.tick_s, job.restart_s) + job.detection_s


def _held_back(ranked: FitResult, why_not: str) -> FitResult:
    return ranked if ranked.rejection or ranked.wait_reason else replace(ranked, wait_reason=why_not)


def _is_worth(spot: Offer, on_demand: Offer) -> bool:
    return spot.price_microusd_per_hour < on_demand.price_microusd_per_hour and _is_as_fast(spot, on_demand)


def _is_as_fast(one: Offer, other: Offer) -> bool:
    """A slower machine would fall behind the clock while it runs."""
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


def _on_demand_price(view: JobView, among: Choices) -> float:
    """Of the machine it runs on, if that is one."""
    live = view.live_attempt
    paid = None if live is None or live.offer.interruptible else live.price
    return _usd(among.on_demand.offer) if paid is None else paid / MICROUSD


def _spot_prices(view: JobView, among: Choices) -> dict[str, float]:
    live = view.live_attempt
    here = (
        {zone_of(live.offer): live.price / MICROUSD} if live is not None and live.offer.interruptible else {}
    )
    return {zone: _usd(ranked.offer) for zone, ranked in among.spot.items()} | here


def _usd(offer: Offer) -> float:
    return offer.price_microusd_per_hour / MICROUSD


def _clock(at_ms: int, now_ms: int) -> str:
    at, now = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (at_ms, now_ms))
    return at.strftime("%H:%M UTC" if at.date() == now.date() else "%Y-%m-%d %H:%M UTC")
