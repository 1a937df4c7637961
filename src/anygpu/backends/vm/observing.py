"""What a look at an attempt says, from what its provider lists and what its link knows. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from anygpu.backends.contract import Interval, Observation, State
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.provider import Machine, Power
from anygpu.backends.vm.timing import VmTiming
from anygpu.events.facts import Blame, Failure

OVER = {
    Power.ENDED: (State.GONE, "the provider says it has ended"),
    Power.ENDING: (State.EXITED, "the provider says it is ending"),
    Power.STOPPED: (State.EXITED, "the provider says it is stopped"),
}


def observe(attempt: VmAttempt, now: float, timing: VmTiming) -> Observation:
    """`attempt` has taken in a listing that is new enough."""
    return replace(_observed(attempt, now, timing), twins=tuple(_billed(attempt.twins.values())))


def _billed(machines: Iterable[Machine]) -> Iterator[Interval]:
    for machine in machines:
        if machine.started_at_ms is not None:
            yield Interval(started_at_ms=machine.started_at_ms, ended_at_ms=machine.ended_at_ms)


def _observed(attempt: VmAttempt, now: float, timing: VmTiming) -> Observation:
    machine = attempt.machine
    if attempt.never_was:
        return Observation(state=State.GONE, detail="the provider refused it; nothing was made")
    if machine is None or (not attempt.present and not attempt.ended):
        return _unlisted(attempt, now)
    if machine.power in OVER:
        state, words = OVER[machine.power]
        return _of(machine, state, machine.detail or words)
    if machine.power is Power.STARTING or not machine.address:
        return _of(machine, State.PENDING, _waiting(machine), _too_late(attempt, machine, now, timing))
    return _running(attempt, machine)


def _unlisted(attempt: VmAttempt, now: float) -> Observation:
    preempted = attempt.machine is not None and attempt.machine.preempted
    started = attempt.machine.started_at_ms if attempt.machine else None
    if attempt.listed and attempt.destroyed:
        detail = "it was ended, and the provider no longer lists it"
        return Observation(state=State.GONE, detail=detail, preempted=preempted, started_at_ms=started)
    if now < attempt.may_appear_until:
        return Observation(state=State.PENDING, detail="ordered; the provider does not list it yet")
    detail = "the provider no longer lists it" if attempt.listed else "the provider does not list it"
    return Observation(state=State.ABSENT, detail=detail, preempted=preempted, started_at_ms=started)


def _running(attempt: VmAttempt, machine: Machine) -> Observation:
    link = attempt.link
    if link is None:
        return _of(machine, State.RUNNING, "the machine runs")
    if link.state is LinkState.EXITED:
        return _of(machine, State.EXITED, link.detail or "the agent died")
    return _of(machine, State.RUNNING, link.detail or "the machine runs", link.failure)


def _waiting(machine: Machine) -> str:
    waits_for = "to start" if machine.power is Power.STARTING else "for an address"
    return machine.detail or f"machine {machine.id} waits {waits_for}"


def _too_late(attempt: VmAttempt, machine: Machine, now: float, timing: VmTiming) -> Failure | None:
    if now - attempt.since <= timing.address_s:
        return None
    text = (
        f"waiting for an address: machine {machine.id} in {machine.region or 'its region'} had none after"
        f" {timing.address_s:g} s ({machine.detail or machine.power}). It is ended and another place is tried."
    )
    return Failure(code="no_address", message=text, blame=Blame.LAUNCH)


def _of(machine: Machine, state: State, detail: str, failure: Failure | None = None) -> Observation:
    return Observation(
        state=state,
        detail=detail,
        preempted=machine.preempted,
        started_at_ms=machine.started_at_ms,
        ended_at_ms=machine.ended_at_ms,
        failure=failure,
    )
