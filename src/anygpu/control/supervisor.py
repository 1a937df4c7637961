"""The loop: compare what should be with what is, do the next step, again. Killed anywhere, it continues."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from anygpu.control.agenda import Agenda
from anygpu.control.deadline import has_deadline
from anygpu.control.explaining import AT_ONCE, is_unexplained
from anygpu.control.keeper import Keeper
from anygpu.control.money import orphan_usage
from anygpu.control.placing import Placing
from anygpu.control.policy import Policy
from anygpu.control.queue import wants_a_place
from anygpu.control.seams import Clock, Wake, read_attempt_name
from anygpu.control.sweep import Sweeper, Swept
from anygpu.errors import LeaseLost, NotFound
from anygpu.events.types import Event, OrphanEnded
from anygpu.events.view import AttemptView, JobView
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

LEADER = "control"
EXPLAIN_AGAIN_S = 60.0  # what could not be compared is tried again after this
NUDGE = ""  # wakes the loop without naming a job: something is due at another time than it was
Report = Callable[[str, Exception], None]


@dataclass(slots=True)
class Leadership:
    """What the leader knows. Thrown away with the lease."""

    guard: Guard
    renewed_at: float
    views: dict[str, JobView] = field(default_factory=dict)
    due: Agenda[str] = field(default_factory=Agenda)  # when to look at a job that is not being looked at
    wanting: set[str] = field(default_factory=set)  # jobs without a place
    news: bool = True  # something has changed since places were last given out
    placed_at: float = float("-inf")
    place_soon: bool = False  # a round came too soon after that
    unexplained: Agenda[str] = field(default_factory=Agenda)  # placed without a comparison: when to make one
    timed: set[str] = field(default_factory=set)  # jobs with a deadline that may run on spot
    looking: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    chores: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)  # what was due once more while it was being done
    recovering: dict[str, float] = field(default_factory=dict)
    listed_at: float = float("-inf")
    swept_at: float = float("-inf")
    lost: bool = False


class Supervisor:
    """Runs in every control process; only the one that holds the lease acts."""

    def __init__(
        self,
        journal: Journal,
        keeper: Callable[[], Keeper],
        placing: Placing,
        sweeper: Sweeper,
        clock: Clock,
        wake: Wake,
        policy: Policy,
        holder: str,
        report: Report,
    ) -> None:
        self._journal = journal
        self._new_keeper = keeper
        self._placing = placing
        self._sweeper = sweeper
        self._clock = clock
        self._wake = wake
        self._policy = policy
        self._holder = holder
        self._report = report
        self._sweep_asked = False

    async def run(self) -> None:
        """Never returns; cancel it to stop."""
        while True:
            guard = await self._campaign()
            led = Leadership(guard=guard, renewed_at=self._clock.monotonic())
            try:
                await self._lead(led, self._new_keeper())
            except LeaseLost as error:
                self._report("another control process took over", error)
            finally:
                await _stop([*led.looking.values(), *led.chores.values()])

    async def _campaign(self) -> Guard:
        while True:
            guard = await self._try_to_lead()
            if guard is not None:
                return guard
            await self._clock.sleep(self._policy.leader_ttl_s / 3)

    async def _try_to_lead(self) -> Guard | None:
        try:
            return await self._journal.acquire(LEADER, self._holder, ttl_s=self._policy.leader_ttl_s)
        except Exception as error:  # noqa: BLE001  a store that fails in its own way has not answered either
            self._report("the journal did not answer", error)
            return None

    async def _lead(self, led: Leadership, keeper: Keeper) -> None:
        self._start(led, "renewing the lease", lambda: self._keep_lease(led))
        while not led.lost:
            try:
                await self._round(led, keeper)
            except LeaseLost:
                raise
            except Exception as error:  # noqa: BLE001  one bad round must not end the loop
                self._report("a round of the control loop failed and will be tried again", error)
                led.listed_at = float("-inf")
                await self._clock.sleep(self._policy.hurry_s)
        raise LeaseLost()

    async def _keep_lease(self, led: Leadership) -> None:
        """Beside the rounds: however long a provider takes to answer, the lease does not run out over it."""
        while not led.lost:
            await self._clock.sleep(self._policy.leader_ttl_s / 3)
            started = self._clock.monotonic()
            guard = await self._try_to_lead()
            if guard is not None and guard.epoch == led.guard.epoch:
                led.renewed_at = started
            elif guard is not None or self._clock.monotonic() - led.renewed_at > self._policy.leader_ttl_s:
                raise LeaseLost()

    async def _round(self, led: Leadership, keeper: Keeper) -> None:
        await self._list(led)
        if led.wanting:
            self._place_or_soon(led, keeper)
        if led.unexplained.next_at() <= self._clock.monotonic():
            self._start(led, "comparing places", lambda: self._explain(led))
        if led.timed and self._placing.deadlines.due(_timed(led)):
            self._start(led, "minding deadlines", lambda: self._mind(led))
        if self._placing.moves.next_at() <= self._clock.monotonic():
            self._start(led, "looking for better places", lambda: self._reconsider(led))
        self._start_looks(led, keeper)
        if self._sweep_is_due(led):
            self._start(led, "sweeping", lambda: self._sweep(led))
        if keeper.meters.next_at() <= self._clock.monotonic():
            self._start(led, "reading meters", lambda: keeper.meters.run(led.guard, self._report))
        if keeper.forecasts.next_at() <= self._clock.monotonic():
            self._start(led, "forecasting", lambda: keeper.forecasts.run(led.guard))
        for job_id in sorted(await self._wake.wait(self._pause_s(led))):
            if job_id != NUDGE:
                await self._refresh(led, job_id)

    def _start(self, led: Leadership, chore: str, work: Callable[[], Awaitable[None]]) -> None:
        """What waits for providers goes on beside the rounds, one of each kind at a time."""
        if chore in led.chores:
            led.again.add(chore)
        else:
            led.chores[chore] = asyncio.create_task(self._chore(led, chore, work))

    async def _chore(self, led: Leadership, chore: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except LeaseLost:
            led.lost = True
            self._wake.set(NUDGE)
        except Exception as error:  # noqa: BLE001
            self._report(f"{chore} failed and will be tried again", error)
            led.listed_at = float("-inf")
            await self._clock.sleep(self._policy.hurry_s)
        finally:
            led.chores.pop(chore, None)
        if chore in led.again:
            led.again.discard(chore)
            self._wake.set(NUDGE)

    async def _list(self, led: Leadership) -> None:
        """The safety net: read every live job again, whether or not anything woke us."""
        now = self._clock.monotonic()
        if now - led.listed_at < self._policy.poll_s:
            return
        led.listed_at = now
        live = {view.id: view for view in await self._journal.live()}
        for job_id in [*led.views.keys() - live.keys()]:
            self._drop(led, job_id)
        for view in live.values():
            self._know(led, view)

    async def _refresh(self, led: Leadership, job_id: str) -> None:
        """A look reads the job itself: hundreds that change at once are not read twice, one after the other."""
        if job_id not in led.views or job_id in led.looking:
            try:
                self._know(led, await self._journal.view(SYSTEM, job_id))
            except NotFound:
                return
        self._look_now(led, job_id)

    def _know(self, led: Leadership, view: JobView) -> None:
        known = led.views.get(view.id)
        if known is not None and known.position > view.position:
            return
        led.news = led.news or known is None or known.position != view.position
        led.views[view.id] = view
        if wants_a_place(view):
            led.wanting.add(view.id)
        else:
            led.wanting.discard(view.id)
        if not is_unexplained(view):
            led.unexplained.drop(view.id)
        elif view.id not in led.unexplained:
            led.unexplained.set(view.id, self._clock.monotonic() + self._policy.explain_after_s)
        if has_deadline(view):
            led.timed.add(view.id)
        self._placing.moves.note(view)
        if view.id not in led.due and view.id not in led.looking:
            led.due.set(view.id, self._clock.monotonic())
        if view.recovering_since_ms is None:
            led.recovering.pop(view.id, None)
        else:
            led.recovering.setdefault(view.id, self._clock.monotonic())
        if view.terminal:
            self._drop(led, view.id)

    def _drop(self, led: Leadership, job_id: str) -> None:
        led.news = led.views.pop(job_id, None) is not None or led.news
        led.due.drop(job_id)
        led.wanting.discard(job_id)
        led.unexplained.drop(job_id)
        led.timed.discard(job_id)
        self._placing.moves.forget(job_id)
        led.recovering.pop(job_id, None)

    def _place_or_soon(self, led: Leadership, keeper: Keeper) -> None:
        """At once when a job has changed; else not too often: everybody who offers places is asked for them."""
        led.place_soon = not led.news and self._clock.monotonic() < led.placed_at + self._policy.hurry_s
        if not led.place_soon:
            self._start(led, "placing", lambda: self._place(led, keeper))

    async def _place(self, led: Leadership, keeper: Keeper) -> None:
        led.news, led.placed_at = False, self._clock.monotonic()
        wanting = [view for view in led.views.values() if view.id in led.wanting]
        ready = [view for view in wanting if self._may_start(led, keeper, view)]
        if not ready:
            return
        for view in await self._placing.run([*led.views.values()], ready, led.guard):
            self._look_soon(led, view)

    async def _mind(self, led: Leadership) -> None:
        """Jobs with a deadline go from spot to on-demand in time, and back when that pays."""
        self._placing.deadlines.forget_others(led.timed)
        due = self._placing.deadlines.due(_timed(led))
        for view in await self._placing.mind([*led.views.values()], due, led.guard):
            self._look_soon(led, view)

    async def _reconsider(self, led: Leadership) -> None:
        """Jobs on machines that cost are told of better places, or go there."""
        due = self._placing.moves.due()
        for job_id in due:
            if job_id not in led.views:
                self._placing.moves.forget(job_id)
        running = [led.views[job_id] for job_id in due if job_id in led.views]
        for view in await self._placing.reconsider([*led.views.values()], running, led.guard):
            self._look_soon(led, view)

    def _look_soon(self, led: Leadership, view: JobView) -> None:
        self._know(led, view)
        self._look_now(led, view.id)
        self._wake.set(NUDGE)

    def _look_now(self, led: Leadership, job_id: str) -> None:
        if job_id in led.looking:
            led.again.add(job_id)  # that look began before this was known
        else:
            led.due.set(job_id, self._clock.monotonic())

    async def _explain(self, led: Leadership) -> None:
        now = self._clock.monotonic()
        ripe = led.unexplained.due(now, AT_ONCE)
        for job_id in ripe:
            led.unexplained.set(job_id, now + EXPLAIN_AGAIN_S)
        for view in await self._placing.explaining.run([led.views[job_id] for job_id in ripe], led.guard):
            self._know(led, view)

    def _may_start(self, led: Leadership, keeper: Keeper, view: JobView) -> bool:
        """The backoff has passed, and the last attempt can no longer commit anything."""
        if view.attempt is None:
            return True
        waited_s = self._clock.monotonic() - led.recovering.get(view.id, self._clock.monotonic())
        return (
            _is_fenced(view.attempt, keeper.over_for_s(view), self._policy) and waited_s >= view.retry_delay_s
        )

    def _start_looks(self, led: Leadership, keeper: Keeper) -> None:
        for job_id in led.due.due(self._clock.monotonic()):
            led.due.drop(job_id)
            led.looking[job_id] = asyncio.create_task(self._look(led, keeper, job_id))

    async def _look(self, led: Leadership, keeper: Keeper, job_id: str) -> None:
        pause_s = self._policy.hurry_s
        try:
            view, pause_s = await keeper.look(job_id, led.guard)
            self._know(led, view)
            keeper.meters.note(view)
            keeper.forecasts.note(view)
            if view.terminal:
                keeper.forget(view)
        except LeaseLost:
            led.lost = True
        except Exception as error:  # noqa: BLE001  one bad job must not take the others down
            self._report(f"looking after job {job_id} failed and will be tried again", error)
        finally:
            led.looking.pop(job_id, None)
        if job_id in led.views:
            hurry = job_id in led.again
            led.due.set(job_id, self._clock.monotonic() + (0.0 if hurry else pause_s))
        led.again.discard(job_id)
        self._wake.set(NUDGE)

    def sweep_now(self) -> None:
        """Sweep at the next round, if this process leads. What was just found unowned is ended by a later sweep."""
        self._sweep_asked = True
        self._wake.set(NUDGE)

    def _sweep_is_due(self, led: Leadership) -> bool:
        return self._sweep_asked or self._clock.monotonic() - led.swept_at >= self._policy.sweep_every_s

    async def _sweep(self, led: Leadership) -> None:
        led.swept_at, self._sweep_asked = self._clock.monotonic(), False
        await self._sweeper.run([*led.views.values()])
        for swept in await self._sweeper.swept():
            await self._charge(swept, led.guard)

    async def _charge(self, swept: Swept, guard: Guard) -> None:
        """A machine that turned up after its attempt was over has cost something too."""
        named = read_attempt_name(swept.name)
        if named is None:
            return
        job_id, number = named
        at_ms = self._clock.wall_ms()

        def decide(view: JobView) -> list[Event]:
            attempt = view.attempts[number - 1] if number <= len(view.attempts) else None
            if attempt is None or not attempt.released:
                return []
            usage = orphan_usage(attempt, swept.observation, at_ms)
            return [] if usage is None else [OrphanEnded(attempt=number, usage=usage)]

        try:
            await self._journal.transact(SYSTEM, job_id, decide, at_ms=at_ms, guard=guard)
        except NotFound:
            return  # another server's, or its journal was pruned

    def _pause_s(self, led: Leadership) -> float:
        """Until the next thing is due, if nothing wakes us before."""
        now = self._clock.monotonic()
        chores = {
            "comparing places": led.unexplained.next_at(),
            "looking for better places": self._placing.moves.next_at(),
        }
        late = [led.due.next_at(), *(at for chore, at in chores.items() if chore not in led.chores)]
        if min(late) <= now:  # it became due after this round had looked, and would hide what is behind it
            return 0.01
        times = [led.listed_at + self._policy.poll_s, led.due.next_at(), *chores.values()]
        times += [self._placing.next_at()] if led.wanting else []
        times += [led.placed_at + self._policy.hurry_s] if led.place_soon else []
        times += [self._placing.deadlines.next_at(_timed(led))] if led.timed else []
        times += [since + led.views[job_id].retry_delay_s for job_id, since in led.recovering.items()]
        future = [time for time in times if now < time < float("inf")]
        return max(0.01, min(future) - now) if future else 0.01


def _is_fenced(attempt: AttemptView, over_for_s: float, policy: Policy) -> bool:
    """Nothing of it trains any more: its agent said so, the provider says so, or its lease has run out."""
    told = attempt.outcome is not None and attempt.lost is None
    return told or attempt.released or over_for_s > policy.silence_for(attempt.offer)


def _timed(led: Leadership) -> list[JobView]:
    return [led.views[job_id] for job_id in sorted(led.timed)]


async def _stop(tasks: Iterable[asyncio.Task[None]]) -> None:
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
