"""Invariants 4 (recorded costs equal the provider's charges), 5 (no budget is exceeded) and 14 (no payment unasked)."""

from collections.abc import Iterator, Mapping

from anygpu.events.types import AttemptLaunching, AttemptReleased, JobFailed, MeterDiffered, MigrateRequested
from anygpu.events.view import AttemptView, JobView
from anygpu.testing.invariants.timeline import JobTimeline, TimedEvent, Violation
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.providers.backend import charged_microusd
from anygpu.testing.simulation.providers.provider import SimMachine, SimProvider
from anygpu.testing.simulation.world import SimWorld

Stories = Mapping[str, JobTimeline]
OBSERVATION_S = 1.0  # duration of one observation
CALM_S = 30.0  # allowed time from reaching the limit to the machine's end, without faults
STORM_S = 300.0  # the same, with faults


def check(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    yield from (
        Violation(4, f"the ledger of job {job_id} decreased") for job_id in world.recorder.decreased_ledgers
    )
    for timeline in timelines.values():
        view = world.recorder.views[timeline.job_id]
        for attempt in view.attempts:
            yield from _ledger(world, timeline, attempt)
        yield from _budget(world, timeline, view)
        yield from _consent(world, timeline, view)
    yield from _concurrency(world, timelines)


def machines_of(world: SimWorld, name: str) -> Iterator[tuple[SimProvider, SimMachine]]:
    for provider in world.providers:
        yield from ((provider, machine) for machine in provider.machines_named(name))


def _ledger(world: SimWorld, timeline: JobTimeline, attempt: AttemptView) -> Iterator[Violation]:
    """Yield a violation if the recorded costs (ledger) differ from the provider's charges.

    The ledger may or may not include machines that the provider listed only after the attempt's cost was recorded.
    """
    release = _release(timeline, attempt.number)
    if release is None or _is_guess(attempt):
        return
    theirs = list(machines_of(world, attempt.name))
    certain = sum(charged_microusd(p, m) for p, m in theirs if m.listed_from < release.at - OBSERVATION_S)
    most = sum(charged_microusd(p, m) for p, m in theirs)
    if not certain <= attempt.cost_microusd <= most:
        text = f"{attempt.name} costs {attempt.cost_microusd}, the provider charges {certain} to {most}"
        yield Violation(4, text)
    if certain == most and any(e.event.attempt == attempt.number for e in timeline.events(MeterDiffered)):
        yield Violation(4, f"{attempt.name}: a meter difference was reported, but there is none")


def _release(timeline: JobTimeline, number: int) -> TimedEvent[AttemptReleased] | None:
    return next((entry for entry in timeline.events(AttemptReleased) if entry.event.attempt == number), None)


def _is_guess(attempt: AttemptView) -> bool:
    return attempt.usage is not None and attempt.usage.source != "provider"


def _budget(world: SimWorld, timeline: JobTimeline, view: JobView) -> Iterator[Violation]:
    """Yield a violation if the job exceeded its budget, or was ended by its budget long before that was used up.

    Histories with clock jumps are not checked, because estimates of running costs are then wrong.
    """
    limit = view.spec.limits.max_cost_microusd
    if limit is None or world.faults.counts[Fault.CLOCK_JUMPED]:
        return
    bills = [(p, m) for a in view.attempts for p, m in machines_of(world, a.name)]
    cost, dearest = sum(charged_microusd(p, m) for p, m in bills), max((m.price for _, m in bills), default=0)
    within_s = STORM_S if world.scenario.rates else CALM_S
    dearest *= view.spec.resources.nodes
    slack = _slack(bills, dearest, within_s)
    if cost > limit + slack:
        yield Violation(
            5, f"job {view.id} cost {cost}; its budget is {limit}, the allowed maximum {limit + slack}"
        )
    policy = world.scenario.policy
    early = _slack(bills, dearest, within_s + policy.min_useful_s + policy.stop_allowance_s)
    for failed in timeline.events(JobFailed):
        if failed.event.failure.code == "budget" and cost + early < limit:
            yield Violation(
                5, f"job {view.id} had spent only {cost} of {limit} when its budget was reported as used up"
            )


def _consent(world: SimWorld, timeline: JobTimeline, view: JobView) -> Iterator[Violation]:
    """Yield a violation for the first paid machine of a job whose user did not ask for paid machines.

    A user asks for them in the spec, with a budget or fallbacks, or by moving the job to a paid backend.
    """
    paid, asked = view.spec.placement.paid, view.spec.limits.max_cost_microusd is not None
    if paid or (paid is None and (asked or view.spec.placement.fallbacks)):
        return
    moves = (
        [(entry.at, entry.event.to) for entry in timeline.events(MigrateRequested)] if paid is None else []
    )
    for intent in timeline.events(AttemptLaunching):
        provider = next((p for p, m in machines_of(world, intent.event.name) if m.price), None)
        if provider is None:
            continue
        if not any(at <= intent.at and to == provider.name for at, to in moves):
            yield Violation(14, f"{intent.event.name} was rented from {provider.name} without consent")
        return


def _slack(bills: list[tuple[SimProvider, SimMachine]], price: int, seconds: float) -> int:
    """Return how far a budget may be exceeded: the cost of one machine for `seconds` more, in full billing steps.

    docs/explanation/money.md (Budgets) explains this.
    """
    step_s = max((max(p.tariff.step_s, p.tariff.minimum_s) for p, _ in bills), default=0)
    return round(price * (seconds + step_s) / 3600)


def _concurrency(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    """Yield a violation if too many paid attempts ran at once, according to the journal or the provider's records."""
    most = world.scenario.policy.max_paid_attempts
    spans: list[tuple[float, float]] = []
    rented: list[tuple[float, float]] = []
    for timeline in timelines.values():
        for intent in (entry for entry in timeline.events(AttemptLaunching) if entry.event.offer.is_paid):
            release = _release(timeline, intent.event.attempt)
            until = float("inf") if release is None else release.at
            spans.append((intent.at, until))
            rented += [
                (m.launched_at, m.ended_at or until)
                for _, m in _first_machine(world, intent.event.name, until)
            ]
    for what, periods in (("attempts", spans), ("machines", rented)):
        if _max_concurrent(periods) > most:
            yield Violation(5, f"{_max_concurrent(periods)} paid {what} at once, {most} are allowed")


def _first_machine(world: SimWorld, name: str, until: float) -> list[tuple[SimProvider, SimMachine]]:
    """Return a list with the first machine called `name` that was listed before `until`, and its provider.

    The list is empty if there is none. Later machines of that name are not counted here, because the sweeper ends them.
    """
    return [(p, m) for p, m in machines_of(world, name) if m.listed_from < until - OBSERVATION_S][:1]


def _max_concurrent(spans: list[tuple[float, float]]) -> int:
    moments = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most
