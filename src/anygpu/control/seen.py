"""What a control process has seen of an attempt, as a value that decisions are made of."""

from dataclasses import dataclass, field

from anygpu.backends.contract import Observation
from anygpu.events.facts import Failure, Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The newest look at an attempt through its provider."""

    observation: Observation | None = None  # None: the look itself failed
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What this control process has seen of one attempt, by its own monotonic clock."""

    silent_s: float = 0  # since the last sign of life, or since we began to watch
    silent_probes: int = 0  # looks since the last sign of life
    claimed: bool = True  # whether it had an agent whose silence could be seen
    probe: Probe | None = None
    books: Observation | None = None  # the newest look in which the provider said since when it bills
    absent_s: float = 0  # from the first to the newest of the looks that did not find it
    absent_ago_s: float = 0  # since the first of them
    absent_probes: int = 0  # in how many looks in a row
    state_s: float = 0  # since the attempt's state was first seen as it is
    wanted_end_s: float = 0  # since cancel or stop was first seen
    training_s: float = 0
    billed_s: float = 0  # since its machine may have begun to cost
    held_s: float = 0  # since it was first seen to be held
    launch_failures: int = 0  # calls whose outcome is unknown
    refusal: Failure | None = None  # the provider definitely did not launch it
    terminated: bool = False  # terminate was called and returned
    stranded: str = ""  # why nobody can look after it
    stranded_s: float = 0  # and for how long
    marks: Marks = field(default_factory=Marks)

    @property
    def observation(self) -> Observation | None:
        """What the provider said when it was last asked; None when it did not answer."""
        return self.probe.observation if self.probe else None

    @property
    def words(self) -> str:
        if self.probe is None:
            return "not probed"
        if self.probe.observation is None:
            return f"the last probe failed: {self.probe.detail}"
        return f"the provider says {self.probe.observation.state}"


NOTHING = Seen()
