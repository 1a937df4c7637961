"""The view of a job: its current state and that of its attempts, computed from its events by `fold`."""

from dataclasses import dataclass, replace
from typing import Any

from anygpu.events.facts import (
    ArtifactRef,
    BetterPlace,
    CheckpointMark,
    CheckpointRef,
    Failure,
    Marks,
    MemoryUse,
    Phase,
    Prediction,
    Status,
    Usage,
)
from anygpu.events.offers import Handle, Offer
from anygpu.spec.jobspec import JobSpec

FOLD_VERSION = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The state of one node of an attempt that has several."""

    claimant: str | None = None
    host: str = ""
    ready_at_ms: int | None = None
    address: str = ""  # at which the other nodes reach it
    port: int = 0
    restored: bool | None = None  # the checkpoint to resume from; None: there is none, or it is not known
    ended_at_ms: int | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    step: int | None = None
    memory: MemoryUse | None = None

    @property
    def has_ended(self) -> bool:
        return self.ended_at_ms is not None

    @property
    def has_failed(self) -> bool:
        """Whether the node has ended, and not because its processes succeeded."""
        return self.has_ended and not (self.outcome == "exited" and self.exit_code == 0)

    @property
    def state(self) -> str:
        """What the node does: starting, preparing, ready (waits for the other nodes, or runs) or ended."""
        if self.has_ended:
            return "ended"
        if self.ready_at_ms is not None:
            return "ready"
        return "starting" if self.claimant is None else "preparing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """The state of one attempt."""

    number: int
    name: str
    offer: Offer
    ticket_sha256: str
    launching_at_ms: int
    handle: Handle | None = None
    claimant: str | None = None
    resume: CheckpointRef | None = None
    launched_at_ms: int | None = None
    claimed_at_ms: int | None = None
    training_at_ms: int | None = None
    resumed: bool | None = None  # whether training continued from `resume`; None while nothing shows it
    first_step: int | None = None  # the first reported step, which showed it
    restart_lost_s: float = 0  # training that the checkpoint contained and a restart has lost
    restart_lost_microusd: int = 0
    stop_reason: str | None = None
    stop_message: str = ""
    makes_room_for: str = ""  # the job that gets its slots
    ended_at_ms: int | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    step: int | None = None
    memory: MemoryUse | None = None
    lost: Failure | None = None
    released_at_ms: int | None = None
    marks: Marks = Marks()
    started_at_ms: int | None = None  # start of billing by the provider's clock
    price_microusd_per_hour: int | None = None  # the provider's price, if it differs from the offer
    on_demand_microusd_per_hour: int | None = None  # of the same machine, if this one is interruptible
    held_until_ms: int | None = None  # held for inspection after the script failed
    hold_ended: bool = False
    queue_reason: str = ""  # why it waits, or waited, in the queue of its engine
    queue_reason_at_ms: int | None = None
    stranded: str = ""  # why its backend could not be called
    usage: Usage | None = None  # set when the attempt is released
    orphans: tuple[Usage, ...] = ()  # machines of the attempt that appeared after its release
    metered_microusd: int | None = None  # the provider's charge, if it differs from the ledger
    failure: Failure | None = None  # why the job was retried or failed after this attempt
    work_lost_s: float = 0  # training after its last checkpoint, which the next attempt has to repeat
    work_lost_microusd: int = 0
    checkpoints_saved: int = 0
    checkpoint_marks: tuple[CheckpointMark, ...] = ()  # some of them, evenly chosen, with the newest
    nodes: tuple[NodeView, ...] = ()  # of an attempt on several nodes; empty for one machine

    @property
    def node_count(self) -> int:
        return len(self.nodes) or 1

    @property
    def is_claimed(self) -> bool:
        """Whether an agent has connected from every node."""
        return self.claimant is not None and all(node.claimant is not None for node in self.nodes)

    @property
    def are_nodes_ready(self) -> bool:
        """Whether every node is prepared, so that the processes may start."""
        return all(node.ready_at_ms is not None for node in self.nodes)

    def with_node(self, node: int, **changes: Any) -> "AttemptView":
        """Return the attempt with changed fields of one node."""
        before, after = self.nodes[:node], self.nodes[node + 1 :]
        return replace(self, nodes=(*before, replace(self.nodes[node], **changes), *after))

    @property
    def has_failed_node(self) -> bool:
        """Whether the processes of a node have failed, so that the other nodes must stop."""
        return any(node.has_failed for node in self.nodes)

    def claimant_of(self, node: int) -> str | None:
        """Return the agent that owns the node; None if there is none, or no such node."""
        if node == 0:
            return self.claimant
        return self.nodes[node].claimant if 0 < node < len(self.nodes) else None

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended, so that it can commit nothing more."""
        return self.ended_at_ms is not None

    @property
    def is_released(self) -> bool:
        return self.released_at_ms is not None

    @property
    def is_held(self) -> bool:
        return self.held_until_ms is not None and not self.hold_ended

    @property
    def hourly_microusd(self) -> int:
        """The price of all machines of the attempt in micro-dollars per hour."""
        return self.node_hourly_microusd * self.node_count

    @property
    def node_hourly_microusd(self) -> int:
        """The price of one machine of the attempt in micro-dollars per hour."""
        known = self.price_microusd_per_hour
        return self.offer.price_microusd_per_hour if known is None else known

    @property
    def cost_microusd(self) -> int:
        """The recorded cost of the attempt; zero until the provider has confirmed that its machine is gone."""
        certain = (self.usage, *self.orphans) if self.usage else self.orphans
        return sum(usage.cost_microusd for usage in certain)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """The current state of a job."""

    id: str
    organisation: str
    project: str
    person: str
    name: str
    spec: JobSpec
    submitted_at_ms: int
    updated_at_ms: int
    position: int  # of the last event
    status: Status = Status.QUEUED
    phase: Phase = Phase.PLANNING
    reason: str = ""  # why the job waits
    attempts: tuple[AttemptView, ...] = ()
    checkpoints: tuple[CheckpointRef, ...] = ()  # valid ones, oldest first
    past_checkpoints: tuple[str, ...] = ()  # ids of recently deleted checkpoints
    artifacts: tuple[ArtifactRef, ...] = ()
    cancel_requested: bool = False
    retries_used: int = 0
    retry_delay_s: float = 0
    recovering_since_ms: int | None = None
    work_lost_s: float = 0
    work_lost_microusd: int = 0
    code_resumes: bool = False  # the analysed code resumes from checkpoints
    resumed_from: str | None = None
    failure: Failure | None = None
    ended_at_ms: int | None = None
    cost_microusd: int = 0  # the ledger: cost of released attempts
    migrate_to: str = ""  # the backend that a user asked for
    start_requested_at_ms: int | None = (
        None  # a user asked to start the job before others; None once it starts
    )
    plan: str = ""  # blob key of the newest comparison of offers
    predicted: Prediction | None = None  # the first prediction, before the job ran
    prediction: Prediction | None = None  # the newest prediction
    calibrated: int = 0  # the attempt whose steps the newest prediction uses
    better: BetterPlace | None = None  # a better offer for the rest of the job
    edited_tags: tuple[str, ...] | None = None  # None: those of the spec
    notes: str = ""
    damaged: str = ""  # why the events of the job cannot be folded; the view then has only what is known

    @property
    def tags(self) -> tuple[str, ...]:
        return self.spec.tags if self.edited_tags is None else self.edited_tags

    @property
    def is_terminal(self) -> bool:
        return self.status.is_terminal

    @property
    def newest_attempt(self) -> AttemptView | None:
        """The newest attempt, or None before the first launch."""
        return self.attempts[-1] if self.attempts else None

    @property
    def live_attempt(self) -> AttemptView | None:
        """The attempt that may still commit, or None."""
        newest = self.newest_attempt
        return newest if newest is not None and not newest.is_over and not self.is_terminal else None

    @property
    def resumed(self) -> bool | None:
        """Whether the newest attempt for which this is known continued from its checkpoint; None if unknown."""
        shown = (a.resumed for a in reversed(self.attempts) if a.resumed is not None)
        return next(shown, None)

    @property
    def newest_checkpoint(self) -> CheckpointRef | None:
        return self.checkpoints[-1] if self.checkpoints else None

    def has_published(self, checkpoint_id: str) -> bool:
        """Return whether this checkpoint was ever published, even if it has been deleted since."""
        return checkpoint_id in self.past_checkpoints or any(c.id == checkpoint_id for c in self.checkpoints)
