"""9: a deadline that on-demand from the start could meet is met."""

from collections.abc import Iterator, Mapping

from anygpu.events.types import AttemptEnded, CancelRequested, JobFailed
from anygpu.testing.faults import Fault
from anygpu.testing.invariants.story import Story, Violation
from anygpu.testing.scenario import ON_TIME_S
from anygpu.testing.world import World

Stories = Mapping[str, Story]
DEATHS = (Fault.KILLED_BEFORE_WRITE, Fault.KILLED_AFTER_WRITE)
OUTAGE_S = (
    200.0  # each death: nobody decides until another process leads, and agents that wait too long start again
)


def check(world: World, stories: Stories) -> Iterator[Violation]:
    """Only where on-demand keeps its promises, by a clock that nobody sets."""
    steady = any(place.steady for place in world.scenario.places)
    if not steady or world.faults.counts[Fault.CLOCK_JUMPED]:
        return
    slack_s = OUTAGE_S * sum(world.faults.counts[fault] for fault in DEATHS)
    for story in stories.values():
        yield from _late(world, story, slack_s)


def _late(world: World, story: Story, slack_s: float) -> Iterator[Violation]:
    spec = world.witness.views[story.job_id].spec
    within_s, work_s = spec.limits.deadline_s, spec.placement.expected_duration_s
    if within_s is None or work_s is None or within_s < work_s + ON_TIME_S:
        return
    if story.of_any((CancelRequested, JobFailed)):
        return
    done = [told.at for told in story.of(AttemptEnded) if told.event.exit_code == 0]
    took_s = (done[0] if done else float("inf")) - story.commits[0].at
    if took_s > within_s + slack_s:
        yield Violation(9, f"job {story.job_id} took {took_s:.0f} s, its deadline was after {within_s:.0f} s")
