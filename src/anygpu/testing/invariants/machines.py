"""Invariant 3: a machine that no live attempt owns is ended soon.

No machine is billed after its attempt is recorded as gone, or after its job has ended. The mailbox of an attempt is
removed after its end.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anygpu.agent.link.mailbox import CHANNELS
from anygpu.events.types import TERMINAL, AttemptEnded, AttemptLaunching, AttemptLost, AttemptReleased
from anygpu.testing.invariants.timeline import JobTimeline, TimedEvent, Violation
from anygpu.testing.simulation.providers.provider import SimMachine
from anygpu.testing.simulation.world import SimWorld

ORPHAN_S = 200.0  # orphaned machines are ended within this time, once the faults are over
DAMAGED_S = 600.0  # machines of damaged jobs are ended within this time
MAILBOX_S = 85.0  # the mailbox of a released attempt is removed within this time, once the faults are over
LATE_EFFECT_S = 40.0  # lists lag: machines launched this recently may not be listed yet


@dataclass(frozen=True, slots=True)
class MachineOwner:
    """The attempt that owns a machine. A machine has the name of its attempt."""

    timeline: JobTimeline
    intent: TimedEvent[AttemptLaunching]

    @property
    def over_at(self) -> float:
        number = self.intent.event.attempt
        ends: list[TimedEvent[AttemptEnded] | TimedEvent[AttemptLost]] = []
        ends += self.timeline.events(AttemptEnded)
        ends += self.timeline.events(AttemptLost)
        return next((entry.at for entry in ends if entry.event.attempt == number), float("inf"))

    def release_times(self) -> Iterator[tuple[float, str]]:
        number = self.intent.event.attempt
        for release in self.timeline.events(AttemptReleased):
            if release.event.attempt == number:
                yield release.at, "AttemptReleased"
        for end in self.timeline.events_of(TERMINAL):
            yield end.at, type(end.event).__name__


def check(world: SimWorld, timelines: Mapping[str, JobTimeline]) -> Iterator[Violation]:
    owners = {
        intent.event.name: MachineOwner(timeline, intent)
        for timeline in timelines.values()
        for intent in timeline.events(AttemptLaunching)
    }
    for machine in (machine for provider in world.providers for machine in provider.machines):
        owner = owners.get(machine.name)
        if owner is None or owner.intent.at > machine.launched_at:
            yield Violation(
                3, f"{machine.id} was launched before AttemptLaunching for {machine.name} was written"
            )
        elif owner.timeline.job_id not in world.damaged_jobs:
            yield from _machine(world, machine, owner)
        elif machine.ended_at is None and world.loop.time() - machine.launched_at > DAMAGED_S:
            yield Violation(3, f"{machine.id} ({machine.name}) of a damaged job was not ended")
    yield from _addresses(world)
    yield from _mailboxes(world, owners)


def _addresses(world: SimWorld) -> Iterator[Violation]:
    for address in (address for provider in world.providers for address in provider.addresses):
        released = float("inf") if address.released_at is None else address.released_at
        ended = float("inf") if address.machine.ended_at is None else address.machine.ended_at
        if released > max(ended, world.scenario.faults_until) + ORPHAN_S:
            yield Violation(3, f"address {address.id} ({address.machine.name}) was not released")


def _mailboxes(world: SimWorld, owners: Mapping[str, MachineOwner]) -> Iterator[Violation]:
    for name, files in world.relay.files.items():
        owner = owners.get(name)
        if owner is None:
            yield Violation(3, f"the mailbox {name} belongs to no attempt")
        elif owner.timeline.job_id not in world.damaged_jobs:
            over = max((at for at, _ in owner.release_times()), default=float("inf"))
            if world.loop.time() > max(over, world.scenario.faults_until) + MAILBOX_S:
                yield Violation(
                    3, f"the mailbox of {name} was not removed; its attempt ended at {over:.0f} s"
                )
        by_node = Counter(file.partition("-")[0] for file in files)
        if max(by_node.values(), default=0) > 2 * CHANNELS:
            yield Violation(3, f"the mailbox of {name} has {len(files)} messages")


def _machine(world: SimWorld, machine: SimMachine, owner: MachineOwner) -> Iterator[Violation]:
    ended = float("inf") if machine.ended_at is None else machine.ended_at
    over = owner.over_at
    if ended > max(over, machine.launched_at, world.scenario.faults_until) + ORPHAN_S:
        yield Violation(3, f"{machine.id} ({machine.name}) was not ended; its attempt ended at {over:.0f} s")
    if machine.launched_at > over - LATE_EFFECT_S:
        return  # launched too late to be seen by the attempt: the sweeper ends the machine
    for at, what in owner.release_times():
        if ended > at:
            yield Violation(3, f"{machine.id} ({machine.name}) was still billed after {what}")
