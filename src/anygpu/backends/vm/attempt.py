"""The state of one attempt on a rented machine, and what the backend reports about it.

The state is kept in memory. After a restart, it is restored from the provider's list of machines and from the handle in
the journal, which contains what is needed to find the machine.
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
    """Interface of the connection to an attempt's agent. `SshLink` (backends/ssh/link.py) implements it."""

    state: LinkState
    failure: Failure | None  # why the agent will not run
    detail: str  # what the link is doing now
    exit_code: int | None  # of an agent that has ended; 0: all reports were sent

    def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(slots=True)
class VmAttempt:
    """The state of one attempt on a rented machine. Times are those of the event loop's clock."""

    name: str
    first_seen_at: float  # when this process first saw the attempt
    changed_at: float  # when something last changed
    list_after: float = float("-inf")  # time of our last action or link failure: older listings are not used
    launch: LaunchRequest | None = None
    from_earlier_process: bool = False  # the agent may run although it cannot be reached
    machine: CloudMachine | None = None  # as created or last listed
    was_listed: bool = False  # an earlier listing has shown the machine
    is_listed: bool = False  # the newest listing shows the machine
    may_appear_until: float = float("-inf")  # until then, a machine that was ordered may appear in the list
    is_creating: bool = False  # a create call is running
    was_refused: bool = False  # the provider refused, and no earlier order can appear
    terminate_requested: bool = False
    duplicates: dict[str, CloudMachine] = field(
        default_factory=dict
    )  # further machines of the same name, also billed
    destroyed_at: dict[str, float] = field(default_factory=dict)  # machines we destroyed, and when
    link: AgentLink | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def record_action(self, now: float) -> None:
        self.list_after = self.changed_at = now

    def record_created(self, machine: CloudMachine) -> None:
        if not self.was_listed:
            self.machine = machine

    def update(self, snapshot: MachineSnapshot, now: float) -> bool:
        """Update the state from the newest listing of the provider's machines. Return whether it changed."""
        machines = snapshot.of_attempt(self.name)
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
        """Whether the provider is ending the machine although this server did not ask for it."""
        ending = self.machine is not None and self.machine.power is PowerState.ENDING
        return ending and self.is_listed and not self.terminate_requested

    @property
    def is_cut_off(self) -> bool:
        """Whether the provider is ending the machine and the agent is unreachable: reconnecting is useless."""
        return self.is_reclaimed and self.is_link_broken

    @property
    def is_link_broken(self) -> bool:
        """Whether the connection to the agent was lost."""
        return self.link is not None and self.link.state is LinkState.BROKEN

    @property
    def was_never_created(self) -> bool:
        return self.was_refused and self.machine is None and not self.is_listed

    def needs_listing_after(self, moment: float) -> bool:
        """Return whether this attempt needs a listing of the machines that began after `moment`."""
        return self.list_after > moment and not self.is_final

    @property
    def is_final(self) -> bool:
        """Whether no later listing of the machines can change what is known about the attempt."""
        return self.has_ended or self.was_never_created or self.is_reclaimed

    def is_over(self, now: float) -> bool:
        """Return whether all machines of the attempt are gone, so that there is nothing left to watch."""
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
        """Whether a change is expected soon: the machine starts, ends, or cannot be reached."""
        waiting = not self.is_listed or self.machine is None or self.machine.power is not PowerState.RUNNING
        return waiting or self.terminate_requested or self.is_link_down

    @property
    def is_link_down(self) -> bool:
        """Whether the agent cannot be reached or has ended. The provider's list may tell the reason."""
        return self.is_link_broken or (self.link is not None and self.link.state is LinkState.EXITED)

    def uses_capacity(self, now: float) -> bool:
        """Return whether the attempt counts towards the backend's `max_machines`."""
        if self.was_listed:
            return self.is_listed and self.machine is not None and self.machine.power in ALIVE
        return self.is_creating or now < self.may_appear_until


STOPPED_STATES = {
    PowerState.ENDED: (MachineState.GONE, "the provider says that the machine has ended"),
    PowerState.ENDING: (MachineState.EXITED, "the provider says that the machine is ending"),
    PowerState.STOPPED: (MachineState.EXITED, "the provider says that the machine is stopped"),
}


def observe(attempt: VmAttempt, now: float, timing: VmTiming) -> Observation:
    """Build the observation of an attempt from its state.

    The caller has updated the state from a recent listing of the machines.
    """
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
        return Observation(
            state=MachineState.GONE, detail="the provider refused the machine; nothing was created"
        )
    if machine is None or (not attempt.is_listed and not attempt.has_ended):
        return _observe_unlisted(attempt, now)
    if machine.power in STOPPED_STATES:
        state, detail = STOPPED_STATES[machine.power]
        return _observation(machine, state, machine.detail or detail)
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
        detail = "the machine was destroyed, and the provider no longer lists it"
        return Observation(state=MachineState.GONE, detail=detail, preempted=preempted, started_at_ms=started)
    if now < attempt.may_appear_until:
        return Observation(
            state=MachineState.PENDING,
            detail="the machine was created, but the provider does not list it yet",
        )
    detail = (
        "the provider no longer lists the machine"
        if attempt.was_listed
        else "the provider does not list the machine"
    )
    return Observation(state=MachineState.ABSENT, detail=detail, preempted=preempted, started_at_ms=started)


def _observe_running(attempt: VmAttempt, machine: CloudMachine) -> Observation:
    link = attempt.link
    if link is None:
        return _observation(machine, MachineState.RUNNING, "the machine runs")
    if link.state is LinkState.EXITED:
        return _observation(machine, MachineState.EXITED, link.detail or "the agent on the machine has died")
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
        f" {timing.address_timeout_s:g} s ({machine.detail or machine.power}). It is destroyed; another offer is tried."
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
