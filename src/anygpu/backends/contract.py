"""A backend is four verbs; what only some can do is a capability of its own, found by isinstance."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from anygpu.events.facts import Handle, Offer
from anygpu.spec.model import Resources


class State(StrEnum):
    """What the provider says of an attempt's machine."""

    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"  # still there (and perhaps billing), but it will not run again
    GONE = "gone"  # the provider confirms that nothing is left
    ABSENT = "absent"  # the provider does not list it; where lists lag this proves nothing yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at an attempt through its provider."""

    state: State
    detail: str = ""
    preempted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a backend needs to start an attempt. Launching the same name twice starts one."""

    name: str
    job_id: str
    attempt: int
    ticket: str
    agent_url: str
    resources: Resources
    max_run_s: float | None = None


class Backend(Protocol):
    """A place that can run attempts. Every verb works with a handle that holds only the name."""

    name: str
    probe_every_s: float  # how often to look at a healthy attempt; 0 when a look costs nothing

    async def offers(self, need: Resources) -> Sequence[Offer]: ...

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        """Idempotent by name. Raises a LaunchError; any other error leaves the outcome unknown."""
        ...

    async def probe(self, handle: Handle) -> Observation: ...

    async def terminate(self, handle: Handle) -> None:
        """End the machine and everything on it. Twice is the same as once; `probe` confirms."""
        ...


@runtime_checkable
class ListsResources(Protocol):
    """Can say what of ours exists, so that the sweeper can end what nobody owns."""

    async def inventory(self) -> Sequence[Handle]: ...


@runtime_checkable
class DeliversLeftovers(Protocol):
    """Can send what a dead agent left in its spool."""

    async def deliver(self, handle: Handle) -> None: ...
