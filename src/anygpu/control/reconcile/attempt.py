"""Reconcile one job: observe its attempts, call their providers, and record the events that follow."""

from collections.abc import Callable, Mapping, Sequence

from anygpu.backends.contract import Backend, LaunchRequest, MachineState, Observation, SupportsDelivery
from anygpu.backends.health import NO_HEALTH_RECORDER, HealthRecorder, RequestKind
from anygpu.backends.relay.contract import find_relay
from anygpu.backends.vm.provider import OutcomeUnknown
from anygpu.control.agents.addresses import order_for_attempt
from anygpu.control.agents.tickets import Tickets
from anygpu.control.clock import Clock, Randomness
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.decide import events_due, should_hold
from anygpu.control.reconcile.observation import AttemptObservation, AttemptTracker
from anygpu.control.reconcile.verdict import launch_failure
from anygpu.errors import AnygpuError, LaunchError, describe_error
from anygpu.events.offers import Handle
from anygpu.events.types import AttemptLaunched, Event
from anygpu.events.view import AttemptView, JobView
from anygpu.store.journal import Guard, Journal
from anygpu.store.reports import Reports, ReportState, report_number
from anygpu.store.scope import SYSTEM

# What a backend may raise if the outcome of a launch is unknown. Everything else is a fault of the backend or the job.
EXPECTED_ERRORS = (AnygpuError, OutcomeUnknown, OSError)


class AttemptReconciler:
    """Compares the recorded state of jobs with what their providers and agents report, and does the next step.

    Every run starts from the journal, so a lost wake-up or a crash causes only a delay.
    """

    def __init__(
        self,
        journal: Journal,
        reports: Reports,
        backends: Mapping[str, Backend],
        tickets: Tickets,
        clock: Clock,
        randomness: Randomness,
        policy: ControlPolicy,
        agent_url: Callable[[], str],
        agent_urls: Callable[[], Sequence[str]] = lambda: (),
        health: HealthRecorder = NO_HEALTH_RECORDER,
    ) -> None:
        self._journal = journal
        self._reports = reports
        self._backends = backends
        self._tickets = tickets
        self._clock = clock
        self._randomness = randomness
        self._policy = policy
        self._agent_url = agent_url
        self._agent_urls = agent_urls
        self._health = health
        self._trackers: dict[tuple[str, int], AttemptTracker] = {}
        self._jitter: dict[str, float] = {}

    async def reconcile(self, job_id: str, guard: Guard) -> tuple[JobView, float]:
        """Check a job once, and do what is due. Return its new state and the seconds until the next check.

        Events that follow from known facts are written before provider calls, so that the next attempt does not wait
        for the machine of the last one to end.
        """
        view = await self._refresh(job_id)
        if view.damaged:
            return view, self._policy.poll_s
        view, changed = await self._record(view, guard)
        if not changed:
            began = self._clock.monotonic()
            for attempt in _unreleased_attempts(view):
                await self._act(view, attempt, guard)
            # Provider calls take time: read what the agent reported in the meantime, then decide.
            meanwhile = self._clock.monotonic() - began > SLOW_CALL_S
            view, changed = await self._record(await self._refresh(job_id, ask=meanwhile), guard)
        return view, 0.0 if changed and not view.is_terminal else self._next_check_s(view)

    def seconds_since_end(self, view: JobView) -> float:
        """Return how long this control process has known that the newest attempt is over."""
        attempt = view.newest_attempt
        tracker = self._trackers.get((view.id, attempt.number)) if attempt else None
        if attempt is None or tracker is None or not attempt.is_over or not tracker.state[3]:
            return 0.0
        return self._clock.monotonic() - tracker.state_since

    def forget(self, view: JobView) -> None:
        self._jitter.pop(view.id, None)
        for attempt in view.attempts:
            self._trackers.pop((view.id, attempt.number), None)

    async def _refresh(self, job_id: str, *, ask: bool = True) -> JobView:
        """Read the job, and update what is known about its attempts.

        If `ask` is true, the agents' reports are read again; otherwise the last ones are used.
        """
        view = await self._journal.view(SYSTEM, job_id)
        for attempt in _unreleased_attempts(view):
            key = (view.id, attempt.number)
            known = self._trackers.get(key)
            row = known.reports if known and not ask else await self._reports.state(*key)
            peers = await self._peer_reports(view.id, attempt) if ask else {}
            now = self._clock.monotonic()
            tracker = self._trackers.setdefault(key, AttemptTracker.begin(attempt, row, now))
            tracker.update(view, attempt, row, now, self._clock.wall_ms(), peers)
        return view

    async def _peer_reports(self, job_id: str, attempt: AttemptView) -> dict[int, ReportState]:
        """Return the reports of the nodes 1, 2, … of an attempt on several nodes."""
        keys = {(job_id, report_number(attempt.number, node)): node for node in range(1, attempt.node_count)}
        states = await self._reports.states(list(keys)) if keys else {}
        return {node: states[key] for key, node in keys.items()}

    async def _act(self, view: JobView, attempt: AttemptView, guard: Guard) -> None:
        """Make the provider call that is due for the attempt, if any. Runs outside any transaction."""
        tracker = self._trackers[view.id, attempt.number]
        backend = self._backends.get(attempt.offer.backend)
        tracker.set_unreachable(
            _missing_backend_text(attempt) if backend is None else "", self._clock.monotonic()
        )
        if backend is None:
            tracker.record_probe(None, tracker.unreachable, self._clock.monotonic())
        elif attempt.is_over and should_hold(view, attempt):
            await self._probe(backend, attempt, tracker)
        elif attempt.is_over:
            await self._terminate(backend, attempt, tracker)
        elif attempt.handle is None and not attempt.is_claimed and not view.cancel_requested:
            await self._launch(backend, view, attempt, tracker, guard)
        elif self._probe_is_due(backend, tracker):
            await self._probe(backend, attempt, tracker)

    async def _launch(
        self, backend: Backend, view: JobView, attempt: AttemptView, tracker: AttemptTracker, guard: Guard
    ) -> None:
        try:
            request = await self._launch_request(backend, view, attempt)
            handle = await backend.launch(request, attempt.offer)
        except LaunchError as error:
            tracker.refusal = launch_failure(error)
            self._health.record(backend, RequestKind.LAUNCH, str(error))
        except Exception as error:  # noqa: BLE001  after any other error the outcome is unknown
            tracker.launch_failures += 1
            tracker.launch_is_broken = not isinstance(error, EXPECTED_ERRORS)
            tracker.record_probe(None, describe_error(error), self._clock.monotonic())
            self._health.record(backend, RequestKind.LAUNCH, describe_error(error))
        else:
            self._health.record(backend, RequestKind.LAUNCH, "")
            await self._record_launch(view.id, attempt.number, handle, guard)

    async def _launch_request(self, backend: Backend, view: JobView, attempt: AttemptView) -> LaunchRequest:
        relay = find_relay(backend)
        return LaunchRequest(
            name=attempt.name,
            job_id=view.id,
            attempt=attempt.number,
            ticket=self._tickets.ticket(view.id, attempt.number),
            agent_url=self._agent_url(),
            agent_urls=tuple(order_for_attempt(self._agent_urls(), view.id, attempt.number)),
            resources=view.spec.resources,
            max_run_s=self._policy.max_run_s(view.spec, attempt.offer),
            lease_s=self._policy.lease_for(attempt.offer),
            image=view.spec.image or "",
            organisation=view.organisation,
            project=view.project,
            nodes=attempt.node_count,
            relay=tuple(await relay.open(attempt.name, nodes=attempt.node_count))
            if relay is not None
            else (),
        )

    async def _record_launch(self, job_id: str, number: int, handle: Handle, guard: Guard) -> None:
        def decide(view: JobView) -> list[Event]:
            attempt = view.attempts[number - 1]
            fresh = attempt.handle is None and not attempt.is_released and not view.is_terminal
            return [AttemptLaunched(attempt=number, handle=handle)] if fresh else []

        at_ms = self._clock.wall_ms()
        await self._journal.transact(SYSTEM, job_id, decide, at_ms=at_ms, guard=guard)

    async def _terminate(self, backend: Backend, attempt: AttemptView, tracker: AttemptTracker) -> None:
        handle = _handle(attempt)
        try:
            if not tracker.terminated:
                await backend.terminate(handle)
                tracker.record_termination()
        except Exception as error:  # noqa: BLE001
            tracker.record_probe(None, describe_error(error), self._clock.monotonic())
            return
        if attempt.lost and isinstance(backend, SupportsDelivery):
            await self._deliver(backend, handle, tracker)
        await self._probe(backend, attempt, tracker)

    async def _deliver(self, backend: SupportsDelivery, handle: Handle, tracker: AttemptTracker) -> None:
        """Fetch the last reports of a lost agent from its machine.

        If that fails, the job ends without them.
        """
        if tracker.delivery_tries >= DELIVERY_TRIES:
            return
        try:
            await backend.deliver(handle)
            tracker.delivery_tries = DELIVERY_TRIES
        except Exception:  # noqa: BLE001
            tracker.delivery_tries += 1

    async def _probe(self, backend: Backend, attempt: AttemptView, tracker: AttemptTracker) -> None:
        observation: Observation | None = None
        detail, asked = "", self._clock.monotonic()
        try:
            observation = await backend.probe(_handle(attempt))
        except Exception as error:  # noqa: BLE001
            detail = describe_error(error)
        tracker.record_probe(observation, detail, self._clock.monotonic(), asked=asked)
        if tracker.terminated and observation is not None and observation.state in STILL_THERE:
            tracker.terminated = False  # the machine still exists: terminate it again in the next run

    def _probe_is_due(self, backend: Backend, tracker: AttemptTracker) -> bool:
        last = tracker.probed_at if tracker.probed_at is not None else tracker.state_since
        return self._clock.monotonic() - last >= backend.probe_every_s

    async def _record(self, view: JobView, guard: Guard) -> tuple[JobView, bool]:
        """Write the events that follow from the observations, if there are any."""
        observed = self._observations(view)
        jitter = self._jitter.setdefault(view.id, self._randomness.uniform(0, 1))
        at_ms = self._clock.wall_ms()

        def decide(fresh: JobView) -> list[Event]:
            return events_due(fresh, observed, self._policy, jitter, at_ms)

        if not decide(view):
            return view, False
        written = await self._journal.transact(SYSTEM, view.id, decide, at_ms=at_ms, guard=guard)
        return written.view, bool(written.recorded)

    def _observations(self, view: JobView) -> dict[int, AttemptObservation]:
        now = self._clock.monotonic()
        trackers = {a.number: self._trackers.get((view.id, a.number)) for a in view.attempts}
        return {number: tracker.observe(now) for number, tracker in trackers.items() if tracker}

    def _next_check_s(self, view: JobView) -> float:
        """Return the seconds until the next run, unless a wake-up comes earlier."""
        live = view.live_attempt
        if view.is_terminal:
            return float("inf")
        left = [a for a in view.attempts if not a.is_released and a is not live]
        if left and all(a.is_held for a in left):
            return self._policy.probe_every_s
        if left:
            return self._policy.retry_interval_s
        if live is None:
            return self._policy.poll_s
        tracker = self._trackers.get((view.id, live.number))
        if tracker is not None and live.handle is None and not live.is_claimed:
            return min(self._policy.probe_every_s, 0.5 * 2.0**tracker.launch_failures)
        if view.cancel_requested or live.stop_reason:
            return self._policy.retry_interval_s
        return self._policy.probe_every_s


DELIVERY_TRIES = 3
SLOW_CALL_S = 0.02
STILL_THERE = (MachineState.PENDING, MachineState.RUNNING, MachineState.EXITED)


def _unreleased_attempts(view: JobView) -> list[AttemptView]:
    return [] if view.is_terminal else [a for a in view.attempts if not a.is_released]


def _handle(attempt: AttemptView) -> Handle:
    return attempt.handle or Handle(name=attempt.name)


def _missing_backend_text(attempt: AttemptView) -> str:
    return (
        f"the backend {attempt.offer.backend!r} is no longer configured, so the machine of {attempt.name} "
        "can be neither watched nor ended; add the backend again, or end the machine at the provider"
    )
