"""What this process knows of one attempt on a rented machine. Lost with the process; the provider knows the rest."""

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from anygpu.backends.contract import Launch
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.listing import ALIVE, Snapshot, kept
from anygpu.backends.vm.provider import Machine, Power
from anygpu.events.facts import Failure


class AttemptLink(Protocol):
    """Keeps the agent of an attempt running and in reach. `backends.ssh.link.Link` is one."""

    state: LinkState
    failure: Failure | None  # why it will never run
    detail: str  # what it is doing now, in words
    exit_code: int | None  # of an agent that has ended; 0 when it had told everything

    def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(slots=True)
class VmAttempt:
    """One attempt; times are of the loop's own clock."""

    name: str
    since: float  # when this process first heard of it
    stirred_at: float  # when something last changed
    look_after: float = float(
        "-inf"
    )  # our newest act, or a broken connection: a look must be newer than that
    launch: Launch | None = None
    inherited: bool = False  # an earlier process launched it: its agent may be well and out of reach
    machine: Machine | None = None  # as it was created, or last listed
    listed: bool = False  # the provider has shown it
    present: bool = False  # the newest listing shows it
    may_appear_until: float = float("-inf")  # what was ordered before may be missing from lists until then
    ordering: bool = False  # a launch is under way
    refused: bool = False  # the provider has said no, and nothing ordered before can show up
    terminated: bool = False
    twins: dict[str, Machine] = field(default_factory=dict)  # further machines of the same name, billed too
    destroyed: dict[str, float] = field(default_factory=dict)  # machines we ended, and when
    link: AttemptLink | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def acted(self, now: float) -> None:
        self.look_after = self.stirred_at = now

    def created(self, machine: Machine) -> None:
        if not self.listed:
            self.machine = machine

    def take_in(self, snapshot: Snapshot, now: float) -> bool:
        """The newest listing. True when it tells something new."""
        machines = snapshot.of(self.name)
        chosen = kept(machines, self.machine.id if self.machine else "")
        new = chosen != self.machine if chosen else self.present
        self.present = chosen is not None
        if chosen is not None:
            self.machine, self.listed, self.may_appear_until = chosen, True, float("-inf")
            self.twins |= {m.id: m for m in machines if m.id != chosen.id}
        if new:
            self.stirred_at = now
        return new

    @property
    def ended(self) -> bool:
        return self.machine is not None and self.machine.power is Power.ENDED

    @property
    def taken(self) -> bool:
        """It is ending, and not by our doing: no newer listing takes that back."""
        ending = self.machine is not None and self.machine.power is Power.ENDING
        return ending and self.present and not self.terminated

    @property
    def cut_off(self) -> bool:
        """It was taken together with its connection: there is nothing left to dial."""
        return self.taken and self.broken

    @property
    def broken(self) -> bool:
        """It was connected and is not."""
        return self.link is not None and self.link.state is LinkState.BROKEN

    @property
    def never_was(self) -> bool:
        return self.refused and self.machine is None and not self.present

    def asks_after(self, moment: float) -> bool:
        """What was listed at that moment does not tell yet what is to be known of it."""
        return self.look_after > moment and not self.settled

    @property
    def settled(self) -> bool:
        """No later listing says otherwise; what has ended may even be forgotten."""
        return self.ended or self.never_was or self.taken

    def over(self, now: float) -> bool:
        """Nothing of it is left to look after."""
        return (
            self.ended
            or self.never_was
            or (self.terminated and not self.present and now >= self.may_appear_until)
        )

    @property
    def reachable(self) -> bool:
        machine = self.machine
        return (
            machine is not None
            and self.present
            and not self.terminated
            and machine.power is Power.RUNNING
            and bool(machine.address)
        )

    @property
    def in_doubt(self) -> bool:
        """Something about it is expected to change."""
        waiting = not self.present or self.machine is None or self.machine.power is not Power.RUNNING
        return waiting or self.terminated or self.troubled

    @property
    def troubled(self) -> bool:
        """The agent is out of reach or over: the provider may know why."""
        return self.broken or (self.link is not None and self.link.state is LinkState.EXITED)

    def counts(self, now: float) -> bool:
        """It is one of the machines its backend has, or is about to have."""
        if self.listed:
            return self.present and self.machine is not None and self.machine.power in ALIVE
        return self.ordering or now < self.may_appear_until
