"""3: every machine is owned by a live attempt or ended soon, and terminal means that nothing is billed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anygpu.events.types import TERMINAL, AttemptEnded, AttemptLaunching, AttemptLost, AttemptReleased
from anygpu.testing.invariants.story import Story, Told, Violation
from anygpu.testing.provider import Machine
from anygpu.testing.world import World

ORPHAN_S = 200.0  # a machine nobody owns is ended within this, once the faults are over
LATE_EFFECT_S = 40.0  # lists lag: what was launched this shortly before cannot be seen yet


@dataclass(frozen=True, slots=True)
class Owner:
    """The attempt a machine is named after."""

    story: Story
    intent: Told[AttemptLaunching]

    @property
    def over_at(self) -> float:
        number = self.intent.event.attempt
        ends: list[Told[AttemptEnded] | Told[AttemptLost]] = []
        ends += self.story.of(AttemptEnded)
        ends += self.story.of(AttemptLost)
        return next((told.at for told in ends if told.event.attempt == number), float("inf"))

    def said_to_be_gone(self) -> Iterator[tuple[float, str]]:
        number = self.intent.event.attempt
        for release in self.story.of(AttemptReleased):
            if release.event.attempt == number:
                yield release.at, "AttemptReleased"
        for end in self.story.of_any(TERMINAL):
            yield end.at, type(end.event).__name__


def check(world: World, stories: Mapping[str, Story]) -> Iterator[Violation]:
    owners = {
        intent.event.name: Owner(story, intent)
        for story in stories.values()
        for intent in story.of(AttemptLaunching)
    }
    for machine in (machine for provider in world.providers for machine in provider.books):
        owner = owners.get(machine.name)
        if owner is None or owner.intent.at > machine.launched:
            yield Violation(3, f"{machine.id} was launched before the intent {machine.name} was written")
        else:
            yield from _machine(world, machine, owner)
    yield from _addresses(world)


def _addresses(world: World) -> Iterator[Violation]:
    for address in (address for provider in world.providers for address in provider.addresses):
        released = float("inf") if address.released is None else address.released
        ended = float("inf") if address.machine.ended is None else address.machine.ended
        if released > max(ended, world.scenario.faults_until) + ORPHAN_S:
            yield Violation(3, f"address {address.id} ({address.machine.name}) was left behind")


def _machine(world: World, machine: Machine, owner: Owner) -> Iterator[Violation]:
    ended = float("inf") if machine.ended is None else machine.ended
    over = owner.over_at
    if ended > max(over, machine.launched, world.scenario.faults_until) + ORPHAN_S:
        yield Violation(3, f"{machine.id} ({machine.name}) was not ended; its attempt was over at {over:.0f}")
    if machine.launched > over - LATE_EFFECT_S:
        return  # it came to be when nobody could know of it any more: the sweeper's work
    for at, what in owner.said_to_be_gone():
        if ended > at:
            yield Violation(3, f"{machine.id} ({machine.name}) was still billed at {what}")
