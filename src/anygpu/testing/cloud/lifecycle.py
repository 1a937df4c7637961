"""From order to end: boot, notice, halt, end. Nothing here knows a vendor."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anygpu.testing.cloud.faults import Fault, Kind, Occasion
from anygpu.testing.cloud.instance import Body, Cause, Instance, State

if TYPE_CHECKING:
    from anygpu.testing.cloud.cloud import Cloud

log = logging.getLogger("anygpu.cloud-sim")
PENDING_SHARE = 0.25  # of the boot delay; then the provider calls it running, and it still has to boot


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Delays of the simulated provider, in seconds by its clock."""

    boot_s: float = 2
    boot_jitter: float = 0  # up to this share longer, by the seed
    ending_s: float = 0.5  # from shutting down to gone
    notice_s: float = 120


class Lifecycle:
    """Moves instances through their states."""

    def __init__(
        self, cloud: "Cloud", make_body: Callable[[Instance], Body], timing: Timing, seed: int | None
    ) -> None:
        self._cloud = cloud
        self._clock = cloud.clock
        self._make_body = make_body
        self.timing = timing
        self._chance = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching_market = False

    def start(self, instance: Instance) -> None:
        instance.body = self._make_body(instance)
        self._in_background(self._boot(instance), f"boot-{instance.id}")
        if instance.order.max_life_s is not None:
            self._clock.call_after(instance.order.max_life_s, lambda: self.end(instance, Cause.EXPIRED))
        if instance.order.spot and not self._watching_market:
            self._watch_market()

    def end(self, instance: Instance, cause: Cause) -> None:
        """Stops it at once; it is gone a little later."""
        if instance.state.over:
            return
        instance.cause = instance.cause or cause
        instance.stopped_at_ms = instance.stopped_at_ms or self._clock.now_ms()
        instance.state = State.ENDING
        self._in_background(self._finish(instance), f"end-{instance.id}")

    def preempt(self, instance: Instance, notice_s: float | None = None) -> None:
        """Tells the machine, and takes it when the notice is over."""
        if instance.state.over or instance.taken_at_ms is not None:
            return
        wait_s = self.timing.notice_s if notice_s is None else notice_s
        instance.notice_at_ms = self._clock.now_ms()
        instance.taken_at_ms = instance.notice_at_ms + round(1000 * wait_s)
        if wait_s <= 0:
            self.end(instance, Cause.PREEMPTED)
        else:
            self._clock.call_after(wait_s, lambda: self.end(instance, Cause.PREEMPTED))

    def power_off(self, instance: Instance, after_s: float) -> None:
        """`shutdown +N` on the machine; a later one replaces it."""
        due_ms = self._clock.now_ms() + round(1000 * after_s)
        instance.off_at_ms = due_ms

        def halt() -> None:
            if instance.off_at_ms == due_ms and instance.state.alive:
                self._halted(instance)

        self._clock.call_after(after_s, halt)

    def cancel_power_off(self, instance: Instance) -> None:
        instance.off_at_ms = None

    def cut(self, instance: Instance, for_s: float | None = None) -> None:
        """Nothing goes to or from the machine, and nobody is told; None: until `reconnect`."""
        assert instance.body is not None
        instance.body.cut(connected=False)
        if for_s is not None:
            self._clock.call_after(for_s, lambda: self.reconnect(instance))

    def reconnect(self, instance: Instance) -> None:
        assert instance.body is not None
        instance.body.cut(connected=True)

    async def refuse_ssh(self, instance: Instance, for_s: float | None = None) -> None:
        """Its port is closed and its connections break; None: for the rest of its life."""
        assert instance.body is not None
        await instance.body.silence(instance.address)
        if for_s is not None:
            back = instance.body.listen
            self._clock.call_after(
                for_s, lambda: self._in_background(back(instance.address), f"listen-{instance.id}")
            )

    def fill_disk(self, instance: Instance, file_bytes: int | None = 0) -> None:
        """No file on the machine grows beyond this; None: there is room again."""
        assert instance.body is not None
        instance.body.limit_files(file_bytes)

    async def stop(self) -> None:
        """Every machine is halted, whatever it was doing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        bodies = [each.body for each in self._cloud.instances.values() if each.body is not None]
        for body in bodies:
            body.cut(connected=True)  # behind a cut cable a connection would outlive the simulator
        await asyncio.gather(*(body.halt() for body in bodies))

    async def _boot(self, instance: Instance) -> None:
        assert instance.body is not None
        boot_s = self.timing.boot_s * (1 + self._chance.random() * self.timing.boot_jitter)
        await self._clock.sleep(boot_s * PENDING_SHARE)
        if instance.state is not State.PENDING:
            return
        instance.state = State.RUNNING
        instance.running_at_ms = self._clock.now_ms()
        if instance.order.public_address:
            instance.address = instance.inside_ip
        if self._strikes(Kind.BOOT_HANGS, instance):
            return
        if fault := self._strikes(Kind.DISK_FULL, instance):
            instance.body.limit_files(fault.bytes)
        await self._clock.sleep(boot_s * (1 - PENDING_SHARE))
        if instance.state is State.RUNNING:
            await instance.body.boot()
            await self._come_up(instance)

    async def _come_up(self, instance: Instance) -> None:
        assert instance.body is not None
        if instance.state is not State.RUNNING:
            await instance.body.halt()  # it ended while it booted
            return
        if instance.address and not self._strikes(Kind.SSH_REFUSED, instance):
            await instance.body.listen(instance.address)
        instance.booted_at_ms = self._clock.now_ms()

    def _halted(self, instance: Instance) -> None:
        rule = instance.order.on_halt or instance.vendor.on_halt
        if rule == "end":
            self.end(instance, Cause.HALT)
            return
        instance.cause = Cause.HALT
        instance.state = State.STOPPED
        instance.stopped_at_ms = self._clock.now_ms()
        if instance.body is not None:
            self._in_background(instance.body.halt(), f"halt-{instance.id}")

    async def _finish(self, instance: Instance) -> None:
        if instance.body is not None:
            await instance.body.halt()
            if not instance.order.keeps_disk:
                await instance.body.erase()
        await self._clock.sleep(self.timing.ending_s)
        instance.state = State.ENDED
        instance.ended_at_ms = self._clock.now_ms()
        self._cloud.disks.let_go(instance)
        for address in self._cloud.addresses.all(instance.vendor):
            if address.instance == instance.id:
                await self._cloud.disassociate(address)

    def _strikes(self, kind: Kind, instance: Instance) -> Fault | None:
        occasion = Occasion(
            vendor=instance.vendor.name,
            operations=("boot", instance.id, instance.name),
            region=instance.region,
            type=instance.type.name,
            spot=instance.order.spot,
        )
        return self._cloud.faults.strikes(kind, occasion)

    def _watch_market(self) -> None:
        """At every tick of the traces, spot machines without capacity get their notice."""
        due_s = self._cloud.market.next_change_s(self._clock.now_s())
        self._watching_market = due_s is not None
        if due_s is not None:
            self._clock.call_at(due_s, self._market_ticked)

    def _market_ticked(self) -> None:
        now_s = self._clock.now_s()
        for instance in list(self._cloud.instances.values()):
            doubtful = instance.order.spot and instance.state.alive
            if doubtful and not self._cloud.market.available(instance.type, instance.zone, now_s):
                self.preempt(instance)
        self._watch_market()

    def _in_background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed: %r", task.get_name(), error, exc_info=error)
