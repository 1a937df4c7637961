"""Track what this control process has observed of attempts, by its own monotonic clock.

Kept in memory only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from anygpu.backends.contract import MachineState, Observation
from anygpu.events.facts import Failure, Marks
from anygpu.events.view import AttemptView, JobView
from anygpu.store.reports import ReportState


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The last check of an attempt at its provider: when it was made, and the answer or the error."""

    observation: Observation | None = None  # None: the probe failed
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptObservation:
    """What this control process has observed of one attempt.

    Durations are by the process's own monotonic clock.
    """

    silent_s: float = 0  # since the last heartbeat, or since tracking began
    silent_probes: int = 0  # probes since the last heartbeat
    silent_node: int = 0  # the node that has been silent for the longest time
    claimed: bool = True  # whether an agent has claimed the attempt; only then are heartbeats expected
    probe: Probe | None = None
    billing_observation: Observation | None = None  # the last observation that has the start of billing
    absent_s: float = 0  # between the first and the last of the consecutive probes without the machine
    absent_ago_s: float = 0  # since the first of those probes
    absent_probes: int = 0  # number of those probes
    state_s: float = 0  # since the attempt entered its current state
    stop_requested_s: float = 0  # since a cancel or stop was requested
    training_s: float = 0
    billed_s: float = 0  # since billing may have begun
    held_s: float = 0  # since the hold began
    launch_failures: int = 0  # launch calls with an unknown outcome
    launch_is_broken: bool = (
        False  # the last one failed with an error that no answer of the provider explains
    )
    refusal: Failure | None = None  # why the provider refused the launch
    terminated: bool = False  # whether a call to terminate has succeeded
    unreachable: str = ""  # why its backend cannot be called
    unreachable_s: float = 0  # how long its backend could not be called
    marks: Marks = field(default_factory=Marks)

    @property
    def observation(self) -> Observation | None:
        """The provider's answer to the last check, or None if the check failed."""
        return self.probe.observation if self.probe else None

    @property
    def summary(self) -> str:
        if self.probe is None:
            return "the provider was not asked about the machine"
        if self.probe.observation is None:
            return f"the provider could not be asked about the machine: {self.probe.detail}"
        found = self.probe.observation
        return f"the provider says that the machine is {found.state}" + (
            f": {found.detail}" if found.detail else ""
        )


NOT_OBSERVED = AttemptObservation()
NO_PEERS: Mapping[int, ReportState] = {}


@dataclass(slots=True)
class NodeSilence:
    """When a further node of an attempt (not node 0) was heard last, and how often it was probed since."""

    beats: int
    heartbeat_at: float
    probes: int = 0


@dataclass(slots=True)
class AttemptTracker:
    """Collects what is observed about one attempt.

    After a restart it starts from zero. This can delay a decision but never makes one too early.
    """

    heartbeat_at: float
    reports: ReportState
    state: tuple[bool, bool, bool, bool]
    state_since: float
    silent_probes: int = 0
    peers: dict[int, NodeSilence] = field(
        default_factory=dict
    )  # nodes 1, 2, … of an attempt on several nodes
    probe: Probe | None = None
    probed_at: float | None = None
    billing_observation: Observation | None = None
    absent_since: float | None = None
    absent_probes: int = 0
    stop_requested_since: float | None = None
    training_since: float | None = None
    launch_failures: int = 0
    launch_is_broken: bool = False
    refusal: Failure | None = None
    terminated: bool = False
    delivery_tries: int = 0
    unreachable: str = ""
    unreachable_since: float | None = None
    held_since: float | None = None
    first_seen_at: float | None = None  # when tracking began, if that was before the launch
    billing_start_ms: int | None = None
    billed_since: float | None = None
    queued: bool = False  # at the last probe, in the queue of its engine
    start_limit_s: float | None = None  # of the backend, if the machine was starting at the last probe
    starting_since: float | None = None  # when a probe first found it starting

    @classmethod
    def begin(cls, attempt: AttemptView, row: ReportState, now: float) -> "AttemptTracker":
        state = _state(attempt)
        return cls(
            heartbeat_at=now,
            reports=row,
            state=state,
            state_since=now,
            first_seen_at=None if any(state) else now,
        )

    def update(
        self,
        view: JobView,
        attempt: AttemptView,
        row: ReportState,
        now: float,
        now_ms: int,
        peers: Mapping[int, ReportState] = NO_PEERS,
    ) -> None:
        """Update what is known about the attempt from the job's current state and the agent's reports (`row`).

        `peers` are the reports of further nodes.
        """
        self._update_billing(attempt, now, now_ms)
        if self.held_since is None and attempt.is_held:
            self.held_since = now
        if row.beats != self.reports.beats:
            self.heartbeat_at, self.silent_probes = now, 0
        self.reports = row
        if _state(attempt) != self.state:
            self.state, self.state_since = _state(attempt), now
            self.heartbeat_at, self.silent_probes = now, 0  # silence counts from the new state on
            self.peers.clear()
        for node, reports in peers.items():
            if node not in self.peers or self.peers[node].beats != reports.beats:
                self.peers[node] = NodeSilence(reports.beats, now)
        if self.stop_requested_since is None and (
            view.cancel_requested or attempt.stop_reason or attempt.has_failed_node
        ):
            self.stop_requested_since = now
        if self.training_since is None and attempt.training_at_ms is not None:
            self.training_since = now

    def _update_billing(self, attempt: AttemptView, now: float, now_ms: int) -> None:
        """Convert the start of billing to the monotonic clock.

        The wall clock is read only once for each start time.
        """
        began_ms = attempt.launching_at_ms if attempt.started_at_ms is None else attempt.started_at_ms
        if began_ms != self.billing_start_ms:
            self.billing_start_ms = began_ms
            since = now - max(0, now_ms - began_ms) / 1000
            self.billed_since = since if self.first_seen_at is None else max(since, self.first_seen_at)

    def record_probe(
        self, observation: Observation | None, detail: str, now: float, *, asked: float | None = None
    ) -> None:
        """Record the result of a check at the provider.

        The result describes the state at `asked`, when the request was sent; the state may have changed since.
        """
        self.probe, self.probed_at = (
            Probe(observation=observation, detail=detail),
            now if asked is None else asked,
        )
        self.silent_probes += 1
        if observation is not None:
            self._record_start(observation, now)
        if (self.queued or self._may_be_starting(now)) and not self.state[3]:
            self.state_since = now  # the time until the machine has started is not a late start of its agent
        for peer in self.peers.values():
            peer.probes += 1
        if observation is not None and observation.started_at_ms is not None:
            self.billing_observation = observation
        if observation is None or observation.state is not MachineState.ABSENT:
            self.absent_since, self.absent_probes = None, 0
        else:
            self.absent_since = now if self.absent_since is None else self.absent_since
            self.absent_probes += 1

    def _record_start(self, observation: Observation, now: float) -> None:
        self.queued = observation.queued
        is_starting = observation.state is MachineState.PENDING and not observation.queued
        self.start_limit_s = observation.start_limit_s if is_starting else None
        if self.queued:
            self.starting_since = None
        elif is_starting and self.starting_since is None:
            self.starting_since = now

    def _may_be_starting(self, now: float) -> bool:
        """Return whether the machine is starting, within the limit of its backend."""
        return self.start_limit_s is not None and _since(self.starting_since, now) <= self.start_limit_s

    def set_unreachable(self, reason: str, now: float) -> None:
        """Mark the backend as unavailable for `reason`, or as available again if `reason` is empty."""
        self.unreachable = reason
        if not reason:
            self.unreachable_since = None
        elif self.unreachable_since is None:
            self.unreachable_since = now

    def record_termination(self) -> None:
        """Record that a call to terminate the machine succeeded.

        Probes before this call no longer count as absences.
        """
        self.terminated = True
        self.absent_since, self.absent_probes = None, 0

    def observe(self, now: float) -> AttemptObservation:
        first = NodeSilence(self.reports.beats, self.heartbeat_at, self.silent_probes)
        silences = {0: first, **self.peers}
        node = min(silences, key=lambda number: silences[number].heartbeat_at)
        return AttemptObservation(
            silent_s=now - silences[node].heartbeat_at,
            silent_probes=silences[node].probes,
            silent_node=node,
            claimed=self.state[1],
            probe=self.probe,
            billing_observation=self.billing_observation,
            # Until the last probe, not until now: this process may have been suspended in between.
            absent_s=max(0.0, _since(self.absent_since, self.probed_at or now)),
            absent_ago_s=_since(self.absent_since, now),
            absent_probes=self.absent_probes,
            state_s=now - self.state_since,
            stop_requested_s=_since(self.stop_requested_since, now),
            training_s=_since(self.training_since, now),
            launch_failures=self.launch_failures,
            launch_is_broken=self.launch_is_broken,
            refusal=self.refusal,
            terminated=self.terminated,
            unreachable=self.unreachable,
            unreachable_s=_since(self.unreachable_since, now),
            billed_s=0.0 if self.queued else _since(self.billed_since, now),
            held_s=_since(self.held_since, now),
            marks=self.reports.marks,
        )


def _state(attempt: AttemptView) -> tuple[bool, bool, bool, bool]:
    return (
        attempt.handle is not None,
        attempt.is_claimed,
        attempt.training_at_ms is not None,
        attempt.is_over,
    )


def _since(start: float | None, now: float) -> float:
    return 0.0 if start is None else now - start
