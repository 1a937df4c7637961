"""The committed events of one job with their times, and the type of a violation of an invariant."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from anygpu.events.types import Event
from anygpu.testing.simulation.records import Commit
from anygpu.testing.simulation.world import SimWorld

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of an invariant. docs/explanation/simulation.md lists the invariants by number."""

    invariant: int
    text: str

    def __str__(self) -> str:
        return f"invariant {self.invariant}: {self.text}"


@dataclass(frozen=True, slots=True)
class TimedEvent(Generic[E]):
    """An event, and when it was committed (virtual time in seconds)."""

    at: float
    event: E


@dataclass(slots=True)
class JobTimeline:
    job_id: str
    commits: list[Commit]

    def events(self, kind: type[E]) -> list[TimedEvent[E]]:
        events = ((commit.at, commit.recorded.event) for commit in self.commits)
        return [TimedEvent(at, event) for at, event in events if isinstance(event, kind)]

    def events_of(self, kinds: Iterable[type[Event]]) -> list[TimedEvent[Event]]:
        types = tuple(kinds)
        return [entry for entry in self.events(Event) if isinstance(entry.event, types)]


def job_timelines(world: SimWorld) -> dict[str, JobTimeline]:
    timelines: dict[str, JobTimeline] = {}
    for commit in world.recorder.commits:
        job_id = commit.recorded.job_id
        timelines.setdefault(job_id, JobTimeline(job_id, [])).commits.append(commit)
    return timelines
