"""4: the ledger never goes down and equals the provider's meter. 5: no budget or limit is exceeded."""

from collections.abc import Iterator, Mapping

from anygpu.events.types import AttemptLaunching, AttemptReleased, JobFailed, MeterDiffered
from anygpu.events.view import AttemptView, JobView
from anygpu.testing.faults import Fault
from anygpu.testing.invariants.story import Story, Told, Violation
from anygpu.testing.provider import Machine, SimProvider
from anygpu.testing.sim_backend import charged
from anygpu.testing.world import World

Stories = Mapping[str, Story]
SEEN_S = 1.0  # how long a look takes
CALM_S = 30.0  # from the limit to the machine's end, while everything answers
STORM_S = 300.0  # and while calls time out, processes die, and terminates are forgotten


def check(world: World, stories: Stories) -> Iterator[Violation]:
    yield from (Violation(4, f"the ledger of job {job_id} went down") for job_id in world.witness.shrunk)
    for story in stories.values():
        view = world.witness.views[story.job_id]
        for attempt in view.attempts:
            yield from _ledger(world, story, attempt)
        yield from _budget(world, story, view)
    yield from _concurrency(world, stories)


def machines_of(world: World, name: str) -> Iterator[tuple[SimProvider, Machine]]:
    for provider in world.providers:
        yield from ((provider, machine) for machine in provider.named(name))


def _ledger(world: World, story: Story, attempt: AttemptView) -> Iterator[Violation]:
    """Exact by the provider's own timestamps. What it listed too late is the sweeper's, who may die over it."""
    release = _release(story, attempt.number)
    if release is None or _is_guess(attempt):
        return
    theirs = list(machines_of(world, attempt.name))
    certain = sum(charged(p, m) for p, m in theirs if m.listed_from < release.at - SEEN_S)
    most = sum(charged(p, m) for p, m in theirs)
    if not certain <= attempt.cost_microusd <= most:
        text = f"{attempt.name} costs {attempt.cost_microusd}, the provider charges {certain} to {most}"
        yield Violation(4, text)
    if certain == most and any(e.event.attempt == attempt.number for e in story.of(MeterDiffered)):
        yield Violation(4, f"{attempt.name}: a false alarm about the meter")


def _release(story: Story, number: int) -> Told[AttemptReleased] | None:
    return next((told for told in story.of(AttemptReleased) if told.event.attempt == number), None)


def _is_guess(attempt: AttemptView) -> bool:
    return attempt.usage is not None and attempt.usage.source != "provider"


def _budget(world: World, story: Story, view: JobView) -> Iterator[Violation]:
    """A wall clock that jumps makes every sum of running costs wrong; nothing can be promised then."""
    limit = view.spec.limits.max_cost_microusd
    if limit is None or world.faults.counts[Fault.CLOCK_JUMPED]:
        return
    bills = [(p, m) for a in view.attempts for p, m in machines_of(world, a.name)]
    cost, dearest = sum(charged(p, m) for p, m in bills), max((m.price for _, m in bills), default=0)
    within_s = STORM_S if world.scenario.rates else CALM_S
    slack = _slack(bills, dearest, within_s)
    if cost > limit + slack:
        yield Violation(5, f"job {view.id} cost {cost}, its budget is {limit} and the bound {limit + slack}")
    policy = world.scenario.policy
    early = _slack(bills, dearest, within_s + policy.useful_s + policy.stop_allowance_s)
    for failed in story.of(JobFailed):
        if failed.event.failure.code == "budget" and cost + early < limit:
            yield Violation(
                5, f"job {view.id} had spent {cost} of {limit} when its budget was called used up"
            )


def _slack(bills: list[tuple[SimProvider, Machine]], price: int, seconds: float) -> int:
    """What `seconds` more of one machine cost by its rule: the bound that docs/money.md computes."""
    step_s = max((max(p.tariff.step_s, p.tariff.minimum_s) for p, _ in bills), default=0)
    return round(price * (seconds + step_s) / 3600)


def _concurrency(world: World, stories: Stories) -> Iterator[Violation]:
    """Launches count from their intent on, machines until they are confirmed gone: by the journal and by the books."""
    most = world.scenario.policy.paid_attempts
    spans: list[tuple[float, float]] = []
    rented: list[tuple[float, float]] = []
    for story in stories.values():
        for intent in (told for told in story.of(AttemptLaunching) if told.event.offer.paid):
            release = _release(story, intent.event.attempt)
            until = float("inf") if release is None else release.at
            spans.append((intent.at, until))
            rented += [(m.launched, m.ended or until) for _, m in _firsts(world, intent.event.name, until)]
    for what, found in (("attempts", spans), ("machines", rented)):
        if _at_once(found) > most:
            yield Violation(5, f"{_at_once(found)} paid {what} at once, {most} are allowed")


def _firsts(world: World, name: str, until: float) -> list[tuple[SimProvider, Machine]]:
    """One for each name: twins, and what was not listed before the release, are the sweeper's."""
    return [(p, m) for p, m in machines_of(world, name) if m.listed_from < until - SEEN_S][:1]


def _at_once(spans: list[tuple[float, float]]) -> int:
    moments = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most
