"""What the store holds of one job, with the times at which it was written, and what to say when it is wrong."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from anygpu.events.types import Event
from anygpu.testing.witness import Commit
from anygpu.testing.world import World

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold, by its number in the design; 12 and 13 are in docs/simulation.md."""

    invariant: int
    text: str

    def __str__(self) -> str:
        return f"invariant {self.invariant}: {self.text}"


@dataclass(frozen=True, slots=True)
class Told(Generic[E]):
    """An event and when it was written."""

    at: float
    event: E


@dataclass(slots=True)
class Story:
    job_id: str
    commits: list[Commit]

    def of(self, kind: type[E]) -> list[Told[E]]:
        events = ((commit.at, commit.recorded.event) for commit in self.commits)
        return [Told(at, event) for at, event in events if isinstance(event, kind)]

    def of_any(self, kinds: Iterable[type[Event]]) -> list[Told[Event]]:
        wanted = tuple(kinds)
        return [told for told in self.of(Event) if isinstance(told.event, wanted)]


def stories_of(world: World) -> dict[str, Story]:
    stories: dict[str, Story] = {}
    for commit in world.witness.commits:
        job_id = commit.recorded.job_id
        stories.setdefault(job_id, Story(job_id, [])).commits.append(commit)
    return stories
