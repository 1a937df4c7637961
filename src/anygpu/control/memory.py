"""What one control process remembers of an attempt, by its own monotonic clock. Lost with the process, by design."""

from dataclasses import dataclass

from anygpu.backends.contract import Observation, State
from anygpu.control.seen import Probe, Seen
from anygpu.events.facts import Failure
from anygpu.events.view import AttemptView, JobView
from anygpu.store.evidence import AttemptRow


@dataclass(slots=True)
class AttemptMemory:
    """Everything here starts afresh when a control process does, which makes it patient, never hasty."""

    heard_at: float
    row: AttemptRow
    state: tuple[bool, bool, bool, bool]
    state_since: float
    silent_probes: int = 0
    probe: Probe | None = None
    probed_at: float | None = None
    books: Observation | None = None
    absent_since: float | None = None
    absent_probes: int = 0
    wanted_end_since: float | None = None
    training_since: float | None = None
    launch_failures: int = 0
    refusal: Failure | None = None
    terminated: bool = False
    delivery_tries: int = 0
    stranded: str = ""
    stranded_since: float | None = None
    held_since: float | None = None
    met_at: float | None = None  # when it was seen before anything was launched
    began_ms: int | None = None
    billed_since: float | None = None

    @classmethod
    def begin(cls, attempt: AttemptView, row: AttemptRow, now: float) -> "AttemptMemory":
        state = _state(attempt)
        return cls(heard_at=now, row=row, state=state, state_since=now, met_at=None if any(state) else now)

    def notice(self, view: JobView, attempt: AttemptView, row: AttemptRow, now: float, now_ms: int) -> None:
        """Take in the view and the evidence as they are now."""
        self._bill(attempt, now, now_ms)
        if self.held_since is None and attempt.held:
            self.held_since = now
        if row.beats != self.row.beats:
            self.heard_at, self.silent_probes = now, 0
        self.row = row
        if _state(attempt) != self.state:
            self.state, self.state_since = _state(attempt), now
            self.heard_at, self.silent_probes = now, 0  # silence before a claim is not the agent's silence
        if self.wanted_end_since is None and (view.cancel_requested or attempt.stop_reason):
            self.wanted_end_since = now
        if self.training_since is None and attempt.training_at_ms is not None:
            self.training_since = now

    def _bill(self, attempt: AttemptView, now: float, now_ms: int) -> None:
        """Since when it costs, by our own clock; wall clocks are asked once, and may not say what cannot be."""
        began_ms = attempt.launching_at_ms if attempt.started_at_ms is None else attempt.started_at_ms
        if began_ms != self.began_ms:
            self.began_ms = began_ms
            since = now - max(0, now_ms - began_ms) / 1000
            self.billed_since = since if self.met_at is None else max(since, self.met_at)

    def probed(
        self, observation: Observation | None, detail: str, now: float, *, asked: float | None = None
    ) -> None:
        """An answer is as old as its question: while it was on its way, or this process stood still, things changed."""
        self.probe, self.probed_at = (
            Probe(observation=observation, detail=detail),
            now if asked is None else asked,
        )
        self.silent_probes += 1
        if observation is not None and observation.started_at_ms is not None:
            self.books = observation
        if observation is None or observation.state is not State.ABSENT:
            self.absent_since, self.absent_probes = None, 0
        else:
            self.absent_since = now if self.absent_since is None else self.absent_since
            self.absent_probes += 1

    def strand(self, reason: str, now: float) -> None:
        """Nobody can be asked about it now, for this reason; or somebody can again, for none."""
        self.stranded = reason
        if not reason:
            self.stranded_since = None
        elif self.stranded_since is None:
            self.stranded_since = now

    def ended(self) -> None:
        """Terminate returned: what was not listed before tells nothing about what is left now."""
        self.terminated = True
        self.absent_since, self.absent_probes = None, 0

    def seen(self, now: float) -> Seen:
        return Seen(
            silent_s=now - self.heard_at,
            silent_probes=self.silent_probes,
            claimed=self.state[1],
            probe=self.probe,
            books=self.books,
            # To when it was last asked for, not to now: while this process stood still nobody looked.
            absent_s=max(0.0, _since(self.absent_since, self.probed_at or now)),
            absent_ago_s=_since(self.absent_since, now),
            absent_probes=self.absent_probes,
            state_s=now - self.state_since,
            wanted_end_s=_since(self.wanted_end_since, now),
            training_s=_since(self.training_since, now),
            launch_failures=self.launch_failures,
            refusal=self.refusal,
            terminated=self.terminated,
            stranded=self.stranded,
            stranded_s=_since(self.stranded_since, now),
            billed_s=_since(self.billed_since, now),
            held_s=_since(self.held_since, now),
            marks=self.row.marks,
        )


def _state(attempt: AttemptView) -> tuple[bool, bool, bool, bool]:
    return (
        attempt.handle is not None,
        attempt.claimant is not None,
        attempt.training_at_ms is not None,
        attempt.over,
    )


def _since(start: float | None, now: float) -> float:
    return 0.0 if start is None else now - start
