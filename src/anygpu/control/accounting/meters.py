"""Compare the recorded costs with what the provider has charged, for providers that report this (a meter).

A difference raises an alarm.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from anygpu.backends.contract import Backend, SupportsMetering
from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.timers import TimerQueue
from anygpu.errors import JobDamaged, MeterDiffers, NotFound
from anygpu.events.offers import Handle
from anygpu.events.types import Event, MeterDiffered
from anygpu.events.view import AttemptView, JobView
from anygpu.store.journal import Guard, Journal, require_intact
from anygpu.store.scope import SYSTEM

Key = tuple[str, int]
MAX_DONE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeterCheck:
    backend: str
    handle: Handle
    pause_s: float
    until: float
    doubted: bool = False  # whether the last reading was higher than the ledger


class MeterChecker:
    """Reads what the provider has charged (its meter) for each attempt whose machine is gone.

    Each meter is read once, and again later if the provider has no figure yet. If the provider charges more than was
    recorded, the meter is read a second time before the alarm. The reason: a machine that appeared late is metered at
    once, but its cost is recorded only after the sweeper has ended it.
    """

    def __init__(
        self, journal: Journal, backends: Mapping[str, Backend], clock: Clock, policy: ControlPolicy
    ) -> None:
        self._journal = journal
        self._backends = backends
        self._clock = clock
        self._policy = policy
        self._due: dict[Key, _MeterCheck] = {}
        self._timers: TimerQueue[Key] = TimerQueue()
        self._done: dict[Key, None] = {}

    def update(self, view: JobView) -> None:
        """Plan to read the provider's charge for each attempt that cost something and whose machine is gone."""
        now = self._clock.monotonic()
        for attempt in (a for a in view.attempts if a.is_released and a.usage is not None):
            key = (view.id, attempt.number)
            known = key in self._done or key in self._due
            if not known and self._meter(attempt.offer.backend) is not None:
                self._due[key] = _MeterCheck(
                    backend=attempt.offer.backend,
                    handle=attempt.handle or Handle(name=attempt.name),
                    pause_s=self._policy.meter_every_s,
                    until=now + self._policy.meter_for_s,
                )
                self._timers.set(key, now)

    def next_at(self) -> float:
        return self._timers.next_at()

    async def run(self, guard: Guard, report: Callable[[str, Exception], None]) -> None:
        for key in self._timers.due(self._clock.monotonic()):
            await self._check(key, self._due[key], guard, report)

    async def _check(
        self, key: Key, due: _MeterCheck, guard: Guard, report: Callable[[str, Exception], None]
    ) -> None:
        theirs = await self._read_meter(due)
        if theirs is None:
            self._check_later(key, due)
            return
        try:
            if not due.doubted and await self._charges_more(key, theirs):
                self._due[key] = replace(due, doubted=True)
                self._timers.set(key, self._clock.monotonic() + self._policy.max_sweep_delay_s)
                return
            await self._compare(key, theirs, guard, report)
        except (NotFound, JobDamaged):  # the job was deleted, or nothing can be recorded for it
            pass
        self._close(key)

    async def _read_meter(self, due: _MeterCheck) -> int | None:
        meter = self._meter(due.backend)
        try:
            return None if meter is None else await meter.metered_microusd(due.handle)
        except Exception:  # noqa: BLE001  the meter is read again later
            return None

    def _meter(self, backend: str) -> SupportsMetering | None:
        found: object = self._backends.get(backend)
        return found if isinstance(found, SupportsMetering) else None

    def _check_later(self, key: Key, due: _MeterCheck) -> None:
        now = self._clock.monotonic()
        if now < due.until:
            self._due[key] = replace(due, pause_s=min(3600.0, due.pause_s * 2))
            self._timers.set(key, now + due.pause_s)
        else:
            self._close(key)

    def _close(self, key: Key) -> None:
        """Stop watching an attempt: its meter is not read again."""
        self._due.pop(key, None)
        self._timers.drop(key)
        self._done[key] = None
        if len(self._done) > MAX_DONE:
            self._done.pop(next(iter(self._done)))

    async def _charges_more(self, key: Key, theirs: int) -> bool:
        job_id, number = key
        view = await self._journal.view(SYSTEM, job_id)
        require_intact(view)
        attempt = view.attempts[number - 1]
        return theirs > attempt.cost_microusd + self._policy.meter_tolerance_microusd

    async def _compare(
        self, key: Key, theirs: int, guard: Guard, report: Callable[[str, Exception], None]
    ) -> None:
        job_id, number = key

        def decide(view: JobView) -> list[Event]:
            return _difference(view.attempts[number - 1], theirs, self._policy.meter_tolerance_microusd)

        view = await self._journal.view(SYSTEM, job_id)
        require_intact(view)
        if not decide(view):
            return
        at_ms = self._clock.wall_ms()
        written = await self._journal.transact(SYSTEM, job_id, decide, at_ms=at_ms, guard=guard)
        if written.recorded:
            ours = written.view.attempts[number - 1].cost_microusd
            name = written.view.attempts[number - 1].name
            text = (
                f"{name}: the provider charges {theirs} micro-dollars, but anygpu recorded {ours}; compare with "
                "the provider's invoice"
            )
            report(
                "the recorded cost of an attempt differs from what the provider charges", MeterDiffers(text)
            )


def _difference(attempt: AttemptView, theirs: int, tolerance: int) -> list[Event]:
    ours = attempt.cost_microusd
    if attempt.metered_microusd is not None or abs(ours - theirs) <= tolerance:
        return []
    return [MeterDiffered(attempt=attempt.number, ours_microusd=ours, theirs_microusd=theirs)]
