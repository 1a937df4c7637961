"""The state of one attempt on a VM, and the observation that follows from it.

The state is lost with the process. The provider's list and the handle in the journal restore it.
"""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from anygpu.backends.contract import BilledInterval, LaunchRequest, MachineState, Observation
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.machines import ALIVE, MachineSnapshot, select_machine
from anygpu.backends.vm.options import VmTiming
from anygpu.backends.vm.provider import CloudMachine, PowerState
from anygpu.events.facts import Blame, Failure


class AgentLink(Protocol):
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
    first_seen_at: float  # when this process first heard of it
    changed_at: float  # when something last changed
    list_after: float = float(
        "-inf"
    )  # our newest act, or a broken connection: a look must be newer than that
    launch: LaunchRequest | None = None
    from_earlier_process: bool = (
        False  # an earlier process launched it: its agent may be well and out of reach
    )
    machine: CloudMachine | None = None  # as it was created, or last listed
    was_listed: bool = False  # the provider has shown it
    is_listed: bool = False  # the newest listing shows it
    may_appear_until: float = float("-inf")  # what was ordered before may be missing from lists until then
    is_creating: bool = False  # a launch is under way
    was_refused: bool = False  # the provider has said no, and nothing ordered before can show up
    terminate_requested: bool = False
    duplicates: dict[str, CloudMachine] = field(
        default_factory=dict
    )  # further machines of the same name, billed too
    destroyed_at: dict[str, float] = field(default_factory=dict)  # machines we ended, and when
    link: AgentLink | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def record_action(self, now: float) -> None:
        self.list_after = self.changed_at = now

    def record_created(self, machine: CloudMachine) -> None:
        if not self.was_listed:
            self.machine = machine

    def update(self, snapshot: MachineSnapshot, now: float) -> bool:
        """The newest listing. True when it tells something new."""
        machines = snapshot.named(self.name)
        chosen = select_machine(machines, self.machine.id if self.machine else "")
        new = chosen != self.machine if chosen else self.is_listed
        self.is_listed = chosen is not None
        if chosen is not None:
            self.machine, self.was_listed, self.may_appear_until = chosen, True, float("-inf")
            self.duplicates |= {m.id: m for m in machines if m.id != chosen.id}
        if new:
            self.changed_at = now
        return new

    @property
    def has_ended(self) -> bool:
        return self.machine is not None and self.machine.power is PowerState.ENDED

    @property
    def is_reclaimed(self) -> bool:
        """It is ending, and not by our doing: no newer listing takes that back."""
        ending = self.machine is not None and self.machine.power is PowerState.ENDING
        return ending and self.is_listed and not self.terminate_requested

    @property
    def is_cut_off(self) -> bool:
        """It was taken together with its connection: there is nothing left to dial."""
        return self.is_reclaimed and self.is_link_broken

    @property
    def is_link_broken(self) -> bool:
        """It was connected and is not."""
        return self.link is not None and self.link.state is LinkState.BROKEN

    @property
    def was_never_created(self) -> bool:
        return self.was_refused and self.machine is None and not self.is_listed

    def needs_listing_after(self, moment: float) -> bool:
        """What was listed at that moment does not tell yet what is to be known of it."""
        return self.list_after > moment and not self.is_final

    @property
    def is_final(self) -> bool:
        """No later listing says otherwise; what has ended may even be forgotten."""
        return self.has_ended or self.was_never_created or self.is_reclaimed

    def is_over(self, now: float) -> bool:
        """Nothing of it is left to look after."""
        return (
            self.has_ended
            or self.was_never_created
            or (self.terminate_requested and not self.is_listed and now >= self.may_appear_until)
        )

    @property
    def is_reachable(self) -> bool:
        machine = self.machine
        return (
            machine is not None
            and self.is_listed
            and not self.terminate_requested
            and machine.power is PowerState.RUNNING
            and bool(machine.address)
        )

    @property
    def is_changing(self) -> bool:
        """Something about it is expected to change."""
        waiting = not self.is_listed or self.machine is None or self.machine.power is not PowerState.RUNNING
        return waiting or self.terminate_requested or self.is_link_down

    @property
    def is_link_down(self) -> bool:
        """The agent is out of reach or over: the provider may know why."""
        return self.is_link_broken or (self.link is not None and self.link.state is LinkState.EXITED)

    def uses_capacity(self, now: float) -> bool:
        """It is one of the machines its backend has, or is about to have."""
        if self.was_listed:
            return self.is_listed and self.machine is not None and self.machine.power in ALIVE
        return self.is_creating or now < self.may_appear_until


STOPPED_STATES = {
    PowerState.ENDED: (MachineState.GONE, "the provider says it has ended"),
    PowerState.ENDING: (MachineState.EXITED, "the provider says it is ending"),
    PowerState.STOPPED: (MachineState.EXITED, "the provider says it is stopped"),
}


def observe(attempt: VmAttempt, now: float, timing: VmTiming) -> Observation:
    """`attempt` has taken in a listing that is new enough."""
    return replace(
        _observe_machine(attempt, now, timing),
        duplicates=tuple(_billed_intervals(attempt.duplicates.values())),
    )


def _billed_intervals(machines: Iterable[CloudMachine]) -> Iterator[BilledInterval]:
    for machine in machines:
        if machine.started_at_ms is not None:
            yield BilledInterval(started_at_ms=machine.started_at_ms, ended_at_ms=machine.ended_at_ms)


def _observe_machine(attempt: VmAttempt, now: float, timing: VmTiming) -> Observation:
    machine = attempt.machine
    if attempt.was_never_created:
        return Observation(state=MachineState.GONE, detail="the provider refused it; nothing was made")
    if machine is None or (not attempt.is_listed and not attempt.has_ended):
        return _observe_unlisted(attempt, now)
    if machine.power in STOPPED_STATES:
        state, words = STOPPED_STATES[machine.power]
        return _observation(machine, state, machine.detail or words)
    if machine.power is PowerState.STARTING or not machine.address:
        return _observation(
            machine,
            MachineState.PENDING,
            _waiting_detail(machine),
            _address_timeout(attempt, machine, now, timing),
        )
    return _observe_running(attempt, machine)


def _observe_unlisted(attempt: VmAttempt, now: float) -> Observation:
    preempted = attempt.machine is not None and attempt.machine.preempted
    started = attempt.machine.started_at_ms if attempt.machine else None
    if attempt.was_listed and attempt.destroyed_at:
        detail = "it was ended, and the provider no longer lists it"
        return Observation(state=MachineState.GONE, detail=detail, preempted=preempted, started_at_ms=started)
    if now < attempt.may_appear_until:
        return Observation(state=MachineState.PENDING, detail="ordered; the provider does not list it yet")
    detail = "the provider no longer lists it" if attempt.was_listed else "the provider does not list it"
    return Observation(state=MachineState.ABSENT, detail=detail, preempted=preempted, started_at_ms=started)


def _observe_running(attempt: VmAttempt, machine: CloudMachine) -> Observation:
    link = attempt.link
    if link is None:
        return _observation(machine, MachineState.RUNNING, "the machine runs")
    if link.state is LinkState.EXITED:
        return _observation(machine, MachineState.EXITED, link.detail or "the agent died")
    return _observation(machine, MachineState.RUNNING, link.detail or "the machine runs", link.failure)


def _waiting_detail(machine: CloudMachine) -> str:
    waits_for = "to start" if machine.power is PowerState.STARTING else "for an address"
    return machine.detail or f"machine {machine.id} waits {waits_for}"


def _address_timeout(
    attempt: VmAttempt, machine: CloudMachine, now: float, timing: VmTiming
) -> Failure | None:
    if now - attempt.first_seen_at <= timing.address_timeout_s:
        return None
    text = (
        f"waiting for an address: machine {machine.id} in {machine.region or 'its region'} had none after"
        f" {timing.address_timeout_s:g} s ({machine.detail or machine.power}). It is ended and another place is tried."
    )
    return Failure(code="no_address", message=text, blame=Blame.LAUNCH)


def _observation(
    machine: CloudMachine, state: MachineState, detail: str, failure: Failure | None = None
) -> Observation:
    return Observation(
        state=state,
        detail=detail,
        preempted=machine.preempted,
        started_at_ms=machine.started_at_ms,
        ended_at_ms=machine.ended_at_ms,
        failure=failure,
    )
