"""A simulated engine with a queue of its own that may start a job again, as Slurm does, and a backend for it.

The backend decides with the real code of the Slurm backend (`anygpu.backends.slurm.states`) what the state of a job
means for its attempt.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from anygpu.backends.contract import MachineState, Observation
from anygpu.backends.slurm import states
from anygpu.backends.slurm.parse import SlurmJob
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.providers.backend import SimHostBackend
from anygpu.testing.simulation.providers.provider import SimMachine, SimProvider, provider_time_ms

QUEUE_S = (1.0, 250.0)  # longer than an agent may take from the launch to its claim
RESTART_S = (1.0, 60.0)


def may_run(machine: SimMachine) -> bool:
    """Return whether the batch script starts the agent: an attempt runs once."""
    return machine.restarts == 0


@dataclass(slots=True)
class SimQueueProvider(SimProvider):
    """An engine whose jobs wait in a queue. A preempted job goes back to the queue and is started again."""

    def _set_up(self, machine: SimMachine) -> None:
        machine.queued = True
        self.loop.call_later(self.faults.uniform(*QUEUE_S), self._start_queued, machine)

    def _start_queued(self, machine: SimMachine) -> None:
        if machine.ended_at is not None or not machine.queued:
            return
        machine.queued = False
        machine.started_at = self.loop.time()
        if may_run(machine):
            SimProvider._set_up(self, machine)
        else:
            self.end(machine)  # the batch script cancels its own job

    def _preempt(self, machine: SimMachine) -> None:
        if machine.ended_at is not None or machine.queued:
            return
        if self.faults.random.random() < 0.3:
            machine.preempted = True
            self.end(machine)
        else:
            self._requeue(machine)

    def _requeue(self, machine: SimMachine) -> None:
        """Kill the agent, and put the job back into the queue. It keeps its directory, so it keeps its claimant."""
        self.faults.record(Fault.REQUEUED, machine.id)
        self.trace(f"{self.name} requeued {machine.id} {machine.name}")
        machine.restarts += 1
        machine.queued, machine.noticed = True, False
        if machine.guest is not None and machine.launch is not None:
            machine.guest.kill()
            machine.earlier_guests.append(machine.guest)
            machine.guest = self.new_guest(machine, machine.launch)
        self.loop.call_later(self.faults.uniform(*RESTART_S), self._start_queued, machine)

    def agent_exited(self, machine: SimMachine) -> None:
        """End the job with its agent."""
        if machine.guest is not None:
            machine.guest.kill()
        self.end(machine)


class SimQueueBackend(SimHostBackend):
    """A backend for a `SimQueueProvider`. The queue has every job at once."""

    async def offers(self, need: Resources) -> Sequence[Offer]:
        await self._send_request()
        return [Offer(backend=self.name, cpus=8, own=True, expected_wait_s=30, lease_s=self._lease_s)]

    async def probe(self, handle: Handle) -> Observation:
        await self._send_request()
        if self._faults.occurs(Fault.PROBE_FAILED):
            await self._time_out()
        job = states.choose_job(
            [slurm_job(machine) for machine in self._provider.machines_named(handle.name)]
        )
        return Observation(state=MachineState.ABSENT) if job is None else states.observe(job)

    async def terminate(self, handle: Handle) -> None:
        await self._send_request()
        if self._faults.occurs(Fault.TERMINATE_LOST):
            await self._time_out()
        for machine in self._provider.machines_named(handle.name):
            self._provider.end_soon(machine)
        if self._faults.occurs(Fault.TERMINATE_TIMED_OUT):
            await self._time_out()

    async def inventory(self) -> Sequence[Handle]:
        await self._send_request()
        if self._faults.occurs(Fault.PROBE_FAILED):
            await self._time_out()
        return [Handle(name=machine.name) for machine in self._provider.active_machines()]

    async def deliver(self, handle: Handle) -> None:
        await self._send_request()
        for machine in self._provider.machines_named(handle.name):
            if machine.spool_lost:
                raise OSError("the disk cannot be read")
            for guest in (*machine.earlier_guests, machine.guest):
                if guest is not None:
                    guest.deliver()


def slurm_job(machine: SimMachine) -> SlurmJob:
    """Return how squeue lists the job of a simulated machine."""
    return SlurmJob(
        id=int(machine.id.removeprefix("m")),
        name=machine.name,
        state=_state(machine),
        restarts=machine.restarts,
        submitted_s=_seconds(machine.launched_at),
        started_s=None if machine.started_at is None else _seconds(machine.started_at),
        ended_s=None if machine.ended_at is None else _seconds(machine.ended_at),
        nodes="n1",
    )


def _state(machine: SimMachine) -> str:
    if machine.ended_at is None:
        return "PENDING" if machine.queued else "RUNNING"
    return "PREEMPTED" if machine.preempted else "CANCELLED" if machine.ending else "COMPLETED"


def _seconds(at: float) -> int:
    return provider_time_ms(at) // 1000
