"""13: a job leaves a machine it need not leave only for a better place, when it can go on there, and seldom."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from anygpu.control.elsewhere import MOVE, mode_of
from anygpu.control.remaining import deadline_ms
from anygpu.events.types import AttemptLaunching, BetterPlaceFound, CheckpointSaved, StopRequested
from anygpu.testing.invariants.story import Story, Told, Violation
from anygpu.testing.world import World

Stories = Mapping[str, Story]


def check(world: World, stories: Stories) -> Iterator[Violation]:
    rules = world.scenario.policy.moving
    for job_id, story in stories.items():
        view = world.witness.views[job_id]
        if deadline_ms(view) is not None:
            continue
        left = [told for told in story.of(StopRequested) if told.event.reason == MOVE]
        if left and mode_of(view.spec, rules) != "act":
            yield Violation(13, f"job {job_id} was moved, and nobody allowed that")
        if len(left) > rules.most:
            yield Violation(13, f"job {job_id} was moved {len(left)} times")
        if any(later.at - earlier.at < rules.apart_s for earlier, later in pairwise(left)):
            yield Violation(13, f"job {job_id} was moved again too soon")
        for number, stop in enumerate(left, 1):
            yield from _for_a_reason(story, stop, left[:number])


def _for_a_reason(
    story: Story, stop: Told[StopRequested], left: Sequence[Told[StopRequested]]
) -> Iterator[Violation]:
    """Not to the place it is at, nor to one it has moved away from."""
    number = stop.event.attempt
    if not any(told.event.attempt == number and told.at <= stop.at for told in story.of(CheckpointSaved)):
        yield Violation(13, f"job {story.job_id} was moved, and cannot go on from there")
    found = [told.event.better for told in story.of(BetterPlaceFound) if told.event.attempt == number]
    launched = {told.event.attempt: told.event.offer.place for told in story.of(AttemptLaunching)}
    been = {launched[each.event.attempt] for each in left}
    if not found or found[-1] is None or found[-1].offer.place in been:
        yield Violation(13, f"job {story.job_id} was moved to where it was before, or nowhere")
