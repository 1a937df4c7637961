"""Looks after one job at a time: sees how its attempts are, makes the calls that are due, records what follows."""

from collections.abc import Callable, Mapping

from anygpu.backends.contract import Backend, DeliversLeftovers, Launch, Observation, State
from anygpu.control.decide import events_due
from anygpu.control.forecasting import Forecasts
from anygpu.control.hold import wants_hold
from anygpu.control.memory import AttemptMemory
from anygpu.control.meters import Meters
from anygpu.control.policy import Policy
from anygpu.control.seams import Chance, Clock
from anygpu.control.seen import Seen
from anygpu.control.tickets import Tickets
from anygpu.errors import LaunchError
from anygpu.events.facts import Blame, Failure, Handle
from anygpu.events.types import AttemptLaunched, Event
from anygpu.events.view import AttemptView, JobView
from anygpu.store.evidence import Evidence
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM


class Keeper:
    """Level-triggered: every look starts from the journal, so a lost wake-up or a crash costs time, nothing else."""

    def __init__(
        self,
        journal: Journal,
        evidence: Evidence,
        backends: Mapping[str, Backend],
        tickets: Tickets,
        clock: Clock,
        chance: Chance,
        policy: Policy,
        agent_url: Callable[[], str],
    ) -> None:
        self._journal = journal
        self._evidence = evidence
        self._backends = backends
        self._tickets = tickets
        self._clock = clock
        self._chance = chance
        self._policy = policy
        self._agent_url = agent_url
        self._memory: dict[tuple[str, int], AttemptMemory] = {}
        self._jitter: dict[str, float] = {}
        self.meters = Meters(journal, backends, clock, policy)
        self.forecasts = Forecasts(journal, evidence, clock)

    async def look(self, job_id: str, guard: Guard) -> tuple[JobView, float]:
        """One look at a job: the view after it, and in how many seconds to look again.

        What is known already is written first: the next attempt need not wait until the last machine has ended.
        """
        view, changed = await self._record(await self._notice(job_id), guard)
        if not changed:
            began = self._clock.monotonic()
            for attempt in _unfinished(view):
                await self._act(view, attempt, guard)
            # Provider calls take their time: take in what the agent said meanwhile, then decide.
            meanwhile = self._clock.monotonic() - began > NO_TIME_S
            view, changed = await self._record(await self._notice(job_id, ask=meanwhile), guard)
        return view, 0.0 if changed and not view.terminal else self._pace(view)

    def over_for_s(self, view: JobView) -> float:
        """How long this process has known that the newest attempt is over."""
        attempt = view.attempt
        memory = self._memory.get((view.id, attempt.number)) if attempt else None
        if attempt is None or memory is None or not attempt.over or not memory.state[3]:
            return 0.0
        return self._clock.monotonic() - memory.state_since

    def forget(self, view: JobView) -> None:
        self._jitter.pop(view.id, None)
        for attempt in view.attempts:
            self._memory.pop((view.id, attempt.number), None)

    async def _notice(self, job_id: str, *, ask: bool = True) -> JobView:
        """The job as it is now, with the evidence its agents left; that of a moment ago, where nobody asks again."""
        view = await self._journal.view(SYSTEM, job_id)
        for attempt in _unfinished(view):
            key = (view.id, attempt.number)
            known = self._memory.get(key)
            row = known.row if known and not ask else await self._evidence.attempt(*key)
            now = self._clock.monotonic()
            memory = self._memory.setdefault(key, AttemptMemory.begin(attempt, row, now))
            memory.notice(view, attempt, row, now, self._clock.wall_ms())
        return view

    async def _act(self, view: JobView, attempt: AttemptView, guard: Guard) -> None:
        """The calls to the provider that are due, outside any transaction."""
        memory = self._memory[view.id, attempt.number]
        backend = self._backends.get(attempt.offer.backend)
        memory.strand(_stranded(attempt) if backend is None else "", self._clock.monotonic())
        if backend is None:
            memory.probed(None, memory.stranded, self._clock.monotonic())
        elif attempt.over and wants_hold(view, attempt):
            await self._probe(backend, attempt, memory)
        elif attempt.over:
            await self._end(backend, attempt, memory)
        elif attempt.handle is None and attempt.claimant is None and not view.cancel_requested:
            await self._launch(backend, view, attempt, memory, guard)
        elif self._probe_is_due(backend, memory):
            await self._probe(backend, attempt, memory)

    async def _launch(
        self, backend: Backend, view: JobView, attempt: AttemptView, memory: AttemptMemory, guard: Guard
    ) -> None:
        request = Launch(
            name=attempt.name,
            job_id=view.id,
            attempt=attempt.number,
            ticket=self._tickets.ticket(view.id, attempt.number),
            agent_url=self._agent_url(),
            resources=view.spec.resources,
            max_run_s=_longest_s(view, attempt, self._policy),
            lease_s=self._policy.lease_for(attempt.offer),
        )
        try:
            handle = await backend.launch(request, attempt.offer)
        except LaunchError as error:
            memory.refusal = Failure(code=error.code, message=str(error), blame=Blame.LAUNCH)
        except Exception as error:  # noqa: BLE001  whatever an adapter raises, the outcome is unknown
            memory.launch_failures += 1
            memory.probed(None, _said(error), self._clock.monotonic())
        else:
            await self._launched(view.id, attempt.number, handle, guard)

    async def _launched(self, job_id: str, number: int, handle: Handle, guard: Guard) -> None:
        def decide(view: JobView) -> list[Event]:
            attempt = view.attempts[number - 1]
            fresh = attempt.handle is None and not attempt.released and not view.terminal
            return [AttemptLaunched(attempt=number, handle=handle)] if fresh else []

        at_ms = self._clock.wall_ms()
        await self._journal.transact(SYSTEM, job_id, decide, at_ms=at_ms, guard=guard)

    async def _end(self, backend: Backend, attempt: AttemptView, memory: AttemptMemory) -> None:
        handle = _handle(attempt)
        try:
            if not memory.terminated:
                await backend.terminate(handle)
                memory.ended()
        except Exception as error:  # noqa: BLE001
            memory.probed(None, _said(error), self._clock.monotonic())
            return
        if attempt.lost and isinstance(backend, DeliversLeftovers):
            await self._deliver(backend, handle, memory)
        await self._probe(backend, attempt, memory)

    async def _deliver(self, backend: DeliversLeftovers, handle: Handle, memory: AttemptMemory) -> None:
        """Evidence that cannot be had must not keep the job from ending."""
        if memory.delivery_tries >= DELIVERY_TRIES:
            return
        try:
            await backend.deliver(handle)
            memory.delivery_tries = DELIVERY_TRIES
        except Exception:  # noqa: BLE001
            memory.delivery_tries += 1

    async def _probe(self, backend: Backend, attempt: AttemptView, memory: AttemptMemory) -> None:
        observation: Observation | None = None
        detail, asked = "", self._clock.monotonic()
        try:
            observation = await backend.probe(_handle(attempt))
        except Exception as error:  # noqa: BLE001
            detail = _said(error)
        memory.probed(observation, detail, self._clock.monotonic(), asked=asked)
        if memory.terminated and observation is not None and observation.state in STILL_THERE:
            memory.terminated = False  # it was not ended after all: ask again at the next look

    def _probe_is_due(self, backend: Backend, memory: AttemptMemory) -> bool:
        last = memory.probed_at if memory.probed_at is not None else memory.state_since
        return self._clock.monotonic() - last >= backend.probe_every_s

    async def _record(self, view: JobView, guard: Guard) -> tuple[JobView, bool]:
        """Write the facts that follow from what was seen, if there are any."""
        seen = self._seen(view)
        jitter = self._jitter.setdefault(view.id, self._chance.uniform(0, 1))
        at_ms = self._clock.wall_ms()

        def decide(fresh: JobView) -> list[Event]:
            return events_due(fresh, seen, self._policy, jitter, at_ms)

        if not decide(view):
            return view, False
        written = await self._journal.transact(SYSTEM, view.id, decide, at_ms=at_ms, guard=guard)
        return written.view, bool(written.recorded)

    def _seen(self, view: JobView) -> dict[int, Seen]:
        now = self._clock.monotonic()
        memories = {a.number: self._memory.get((view.id, a.number)) for a in view.attempts}
        return {number: memory.seen(now) for number, memory in memories.items() if memory}

    def _pace(self, view: JobView) -> float:
        """When to look again if nothing wakes us before."""
        live = view.live_attempt
        if view.terminal:
            return float("inf")
        left = [a for a in view.attempts if not a.released and a is not live]
        if left and all(a.held for a in left):
            return self._policy.probe_every_s
        if left:
            return self._policy.hurry_s
        if live is None:
            return self._policy.poll_s
        memory = self._memory.get((view.id, live.number))
        if memory is not None and live.handle is None and live.claimant is None:
            return min(self._policy.probe_every_s, 0.5 * 2.0**memory.launch_failures)
        if view.cancel_requested or live.stop_reason:
            return self._policy.hurry_s
        return self._policy.probe_every_s


DELIVERY_TRIES = 3
NO_TIME_S = 0.02
STILL_THERE = (State.PENDING, State.RUNNING, State.EXITED)


def _unfinished(view: JobView) -> list[AttemptView]:
    return [] if view.terminal else [a for a in view.attempts if not a.released]


def _handle(attempt: AttemptView) -> Handle:
    return attempt.handle or Handle(name=attempt.name)


def _stranded(attempt: AttemptView) -> str:
    return (
        f"backend {attempt.offer.backend!r} is not configured any more, so nobody can look after {attempt.name};"
        " configure it again, or end the machine there"
    )


def _longest_s(view: JobView, attempt: AttemptView, policy: Policy) -> float | None:
    """How long the machine may be wanted at most."""
    limits = (policy.time_limit_s(view.spec, attempt.offer), attempt.offer.max_run_s)
    return min((limit for limit in limits if limit is not None), default=None)


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
