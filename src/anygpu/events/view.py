"""What became of a job so far: the value `fold` makes from its events."""

from dataclasses import dataclass

from anygpu.events.facts import (
    ArtifactRef,
    BetterPlace,
    CheckpointRef,
    Failure,
    Marks,
    Phase,
    Prediction,
    Status,
    Usage,
)
from anygpu.events.offers import Handle, Offer
from anygpu.spec.jobspec import JobSpec

FOLD_VERSION = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One try at the job."""

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
    stop_reason: str | None = None
    stop_message: str = ""
    makes_room_for: str = ""  # the job that gets its slots
    ended_at_ms: int | None = None
    outcome: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    step: int | None = None
    lost: Failure | None = None
    released_at_ms: int | None = None
    marks: Marks = Marks()
    started_at_ms: int | None = None  # by the provider's clock: when it began to bill
    price_microusd_per_hour: int | None = None  # what the provider said, where that differs from the offer
    held_until_ms: int | None = None  # kept after a failure of the script
    hold_ended: bool = False
    stranded: str = ""  # why nobody could look after it
    usage: Usage | None = None  # what it cost, once it is released
    orphans: tuple[Usage, ...] = ()  # machines of its name that turned up after it was released
    metered_microusd: int | None = None  # what the provider says it cost, where that differs

    @property
    def is_over(self) -> bool:
        """It will commit nothing more."""
        return self.ended_at_ms is not None

    @property
    def is_released(self) -> bool:
        return self.released_at_ms is not None

    @property
    def is_held(self) -> bool:
        return self.held_until_ms is not None and not self.hold_ended

    @property
    def hourly_microusd(self) -> int:
        """Micro-dollars an hour."""
        known = self.price_microusd_per_hour
        return self.offer.price_microusd_per_hour if known is None else known

    @property
    def cost_microusd(self) -> int:
        """What is certain: nothing until it is released."""
        certain = (self.usage, *self.orphans) if self.usage else self.orphans
        return sum(usage.cost_microusd for usage in certain)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as its events tell it."""

    id: str
    organisation: str
    project: str
    person: str
    name: str
    spec: JobSpec
    submitted_at_ms: int
    updated_at_ms: int
    position: int  # of the last event folded in
    status: Status = Status.QUEUED
    phase: Phase = Phase.PLANNING
    reason: str = ""  # what it waits for
    attempts: tuple[AttemptView, ...] = ()
    checkpoints: tuple[CheckpointRef, ...] = ()  # valid ones, oldest first
    past_checkpoints: tuple[str, ...] = ()  # ids of the last ones that are no longer kept
    artifacts: tuple[ArtifactRef, ...] = ()
    cancel_requested: bool = False
    retries_used: int = 0
    retry_delay_s: float = 0
    recovering_since_ms: int | None = None
    work_lost_s: float = 0
    work_lost_microusd: int = 0
    resumed_from: str | None = None
    failure: Failure | None = None
    ended_at_ms: int | None = None
    cost_microusd: int = 0  # the ledger: what the released attempts cost
    migrate_to: str = ""  # the backend somebody wants it to go on at
    plan: str = ""  # blob key of the newest comparison of places
    predicted: Prediction | None = None  # the first, before anything of the run itself was known
    prediction: Prediction | None = None  # the newest
    calibrated: int = 0  # the attempt whose own steps the newest prediction rests on
    better: BetterPlace | None = None  # where what is left of it should be done

    @property
    def is_terminal(self) -> bool:
        return self.status.is_terminal

    @property
    def newest_attempt(self) -> AttemptView | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def live_attempt(self) -> AttemptView | None:
        """The one attempt that may still commit."""
        newest = self.newest_attempt
        return newest if newest is not None and not newest.is_over and not self.is_terminal else None

    @property
    def newest_checkpoint(self) -> CheckpointRef | None:
        return self.checkpoints[-1] if self.checkpoints else None

    def has_published(self, checkpoint_id: str) -> bool:
        """Whether this checkpoint was published before, even if it is no longer kept."""
        return checkpoint_id in self.past_checkpoints or any(c.id == checkpoint_id for c in self.checkpoints)
