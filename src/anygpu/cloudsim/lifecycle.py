"""Change the state of instances from launch to termination: boot, preemption notice, shutdown, end."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from anygpu.cloudsim.clock import SimClock
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.faults import FaultContext, FaultKind, FaultRegistry, InjectedFault
from anygpu.cloudsim.instance import Instance, InstanceState, MachineRuntime, StopCause
from anygpu.cloudsim.market import SimSpotMarket
from anygpu.cloudsim.resources import AddressStore, DiskStore, PublicAddress

log = logging.getLogger("anygpu.cloud-sim")
PENDING_SHARE = 0.25  # share of the boot delay during which the instance is reported as pending


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTiming:
    """Delays of the simulated provider, in seconds by its clock."""

    boot_s: float = 2
    ending_s: float = 0.5  # time from state `ending` to state `ended`
    notice_s: float = 120


class InstanceLifecycle:
    """The operations that change the state of instances."""

    def __init__(
        self,
        clock: SimClock,
        instances: Mapping[str, Instance],
        addresses: AddressStore,
        disks: DiskStore,
        faults: FaultRegistry,
        market: SimSpotMarket,
        make_machine: Callable[[Instance], MachineRuntime],
        timing: CloudTiming,
    ) -> None:
        self._clock = clock
        self._instances = instances
        self._addresses = addresses
        self._disks = disks
        self._faults = faults
        self._market = market
        self._make_machine = make_machine
        self.timing = timing
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching_market = False

    def start(self, instance: Instance) -> None:
        instance.machine = self._make_machine(instance)
        self._run_in_background(self._boot(instance), f"boot-{instance.id}")
        if instance.order.max_life_s is not None:
            self._clock.call_after(instance.order.max_life_s, lambda: self.end(instance, StopCause.EXPIRED))
        if instance.order.spot and not self._watching_market:
            self._schedule_market_check()

    def end(self, instance: Instance, cause: StopCause) -> None:
        """Stop an instance at once. Its state is `ending` first, and `ended` after a short delay."""
        if instance.state.is_ended:
            return
        instance.cause = instance.cause or cause
        instance.stopped_at_ms = instance.stopped_at_ms or self._clock.now_ms()
        instance.state = InstanceState.ENDING
        self._run_in_background(self._clean_up(instance), f"end-{instance.id}")

    def preempt(self, instance: Instance, notice_s: float | None = None) -> None:
        """Give the preemption notice, and end the instance `notice_s` seconds later."""
        if instance.state.is_ended or instance.preempt_at_ms is not None:
            return
        wait_s = self.timing.notice_s if notice_s is None else notice_s
        instance.notice_at_ms = self._clock.now_ms()
        instance.preempt_at_ms = instance.notice_at_ms + round(1000 * wait_s)
        if wait_s <= 0:
            self.end(instance, StopCause.PREEMPTED)
        else:
            self._clock.call_after(wait_s, lambda: self.end(instance, StopCause.PREEMPTED))

    def schedule_shutdown(self, instance: Instance, after_s: float) -> None:
        """Schedule a shutdown in `after_s` seconds. A later call replaces an earlier one."""
        due_ms = self._clock.now_ms() + round(1000 * after_s)
        instance.shutdown_at_ms = due_ms

        def halt() -> None:
            if instance.shutdown_at_ms == due_ms and instance.state.is_active:
                self._halt(instance)

        self._clock.call_after(after_s, halt)

    def cancel_shutdown(self, instance: Instance) -> None:
        instance.shutdown_at_ms = None

    def disconnect(self, instance: Instance, for_s: float | None = None) -> None:
        """Cut the machine's network without closing connections.

        The network is restored after `for_s` seconds, or by `reconnect` if `for_s` is None.
        """
        assert instance.machine is not None
        instance.machine.set_connected(connected=False)
        if for_s is not None:
            self._clock.call_after(for_s, lambda: self.reconnect(instance))

    def reconnect(self, instance: Instance) -> None:
        assert instance.machine is not None
        instance.machine.set_connected(connected=True)

    async def refuse_ssh(self, instance: Instance, for_s: float | None = None) -> None:
        """Close the SSH port and abort its connections.

        The port is opened again after `for_s` seconds, or never if `for_s` is None.
        """
        assert instance.machine is not None
        await instance.machine.stop_listening(instance.address)
        if for_s is not None:
            listen = instance.machine.listen
            self._clock.call_after(
                for_s, lambda: self._run_in_background(listen(instance.address), f"listen-{instance.id}")
            )

    def fill_disk(self, instance: Instance, file_bytes: int | None = 0) -> None:
        """Simulate a full disk: no file on the machine can grow beyond `file_bytes`.

        None removes the limit.
        """
        assert instance.machine is not None
        instance.machine.limit_file_size(file_bytes)

    async def associate(self, address: PublicAddress, instance: Instance) -> None:
        """Make the instance reachable at the public address."""
        if instance.state.is_ended:
            raise CloudError(
                ErrorReason.CONFLICT,
                f"The machine {instance.id} has ended, so no address can be associated. Use another machine.",
                subject=instance.id,
            )
        address.instance = instance.id
        instance.address = address.ip
        if instance.machine is not None:
            await instance.machine.listen(address.ip)

    async def disassociate(self, address: PublicAddress) -> None:
        instance = self._instances.get(address.instance)
        address.instance = ""
        if instance is not None and instance.address == address.ip:
            instance.address = ""
            if instance.machine is not None:
                await instance.machine.stop_listening(address.ip)

    async def stop(self) -> None:
        """Halt all machines."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        machines = [each.machine for each in self._instances.values() if each.machine is not None]
        for machine in machines:
            machine.set_connected(connected=True)  # a cut connection would outlive the simulator
        await asyncio.gather(*(machine.halt() for machine in machines))

    async def _boot(self, instance: Instance) -> None:
        assert instance.machine is not None
        boot_s = self.timing.boot_s
        await self._clock.sleep(boot_s * PENDING_SHARE)
        if instance.state is not InstanceState.PENDING:
            return
        instance.state = InstanceState.RUNNING
        instance.running_at_ms = self._clock.now_ms()
        if instance.order.public_address:
            instance.address = instance.internal_ip
        if self._trigger_fault(FaultKind.BOOT_HANGS, instance):
            return
        if fault := self._trigger_fault(FaultKind.DISK_FULL, instance):
            instance.machine.limit_file_size(fault.bytes)
        await self._clock.sleep(boot_s * (1 - PENDING_SHARE))
        if instance.state is InstanceState.RUNNING:
            await instance.machine.boot()
            await self._finish_boot(instance)

    async def _finish_boot(self, instance: Instance) -> None:
        assert instance.machine is not None
        if instance.state is not InstanceState.RUNNING:
            await instance.machine.halt()  # the instance was ended during its boot
            return
        if instance.address and not self._trigger_fault(FaultKind.SSH_REFUSED, instance):
            await instance.machine.listen(instance.address)
        instance.booted_at_ms = self._clock.now_ms()

    def _halt(self, instance: Instance) -> None:
        rule = instance.order.on_halt or instance.vendor.on_halt
        if rule == "end":
            self.end(instance, StopCause.HALT)
            return
        instance.cause = StopCause.HALT
        instance.state = InstanceState.STOPPED
        instance.stopped_at_ms = self._clock.now_ms()
        if instance.machine is not None:
            self._run_in_background(instance.machine.halt(), f"halt-{instance.id}")

    async def _clean_up(self, instance: Instance) -> None:
        if instance.machine is not None:
            await instance.machine.halt()
            if not instance.order.keep_disk:
                await instance.machine.erase_disk()
        await self._clock.sleep(self.timing.ending_s)
        instance.state = InstanceState.ENDED
        instance.ended_at_ms = self._clock.now_ms()
        self._disks.detach(instance)
        for address in self._addresses.all(instance.vendor):
            if address.instance == instance.id:
                await self.disassociate(address)

    def _trigger_fault(self, kind: FaultKind, instance: Instance) -> InjectedFault | None:
        context = FaultContext(
            vendor=instance.vendor.name,
            operations=("boot", instance.id, instance.name),
            region=instance.region,
            type=instance.type.name,
            spot=instance.order.spot,
        )
        return self._faults.trigger(kind, context)

    def _schedule_market_check(self) -> None:
        """Schedule a check of spot capacity for the time at which it may change next.

        The check preempts spot instances whose type is no longer available in their zone.
        """
        due_s = self._market.next_change_s(self._clock.now_s())
        self._watching_market = due_s is not None
        if due_s is not None:
            self._clock.call_at(due_s, self._check_market)

    def _check_market(self) -> None:
        now_s = self._clock.now_s()
        for instance in list(self._instances.values()):
            runs_on_spot = instance.order.spot and instance.state.is_active
            if runs_on_spot and not self._market.is_available(instance.type, instance.zone, now_s):
                self.preempt(instance)
        self._schedule_market_check()

    def _run_in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed: %r", task.get_name(), error, exc_info=error)
