"""The state of the leading control process: the jobs it watches and the tasks it runs.

The state is discarded when the process loses the lease.
"""

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from anygpu.control.reconcile.attempt import AttemptReconciler
from anygpu.control.timers import NEVER, TimerQueue
from anygpu.events.view import JobView
from anygpu.store.journal import Guard


class PeriodicTask(ABC):
    """Work that the supervisor starts when it is due.

    The work runs concurrently with the control loop, and never twice at the same time.
    """

    name: str  # as in "checking deadlines failed"
    upkeep: bool = False  # started after the jobs that are due for reconciling, instead of before

    def update(self, view: JobView) -> None:
        """Handle the newest view of a job. Does nothing by default."""
        return

    def forget(self, job_id: str) -> None:
        """Forget a job that has ended. Does nothing by default."""
        return

    def after_reconcile(self, view: JobView) -> None:
        """Handle the state of a job whose attempts have just been checked. Does nothing by default."""
        return

    @abstractmethod
    def is_due(self) -> bool:
        """Return whether the supervisor should start the task now."""

    def next_at(self) -> float:
        """Return when the supervisor has to run its loop for this task.

        NEVER if the task does not need that.
        """
        return NEVER

    @abstractmethod
    async def run(self) -> None:
        """Do the work of the task. An error is reported, and the task starts again when it is due."""


@dataclass(slots=True)
class LeaderTerm:
    """The state of the control process while it holds the lease. It is discarded when the lease is lost."""

    guard: Guard
    renewed_at: float
    reconciler: AttemptReconciler
    tasks: list[PeriodicTask] = field(default_factory=list)
    views: dict[str, JobView] = field(default_factory=dict)
    damaged: dict[str, float] = field(
        default_factory=dict
    )  # jobs that are not managed, with the time of discovery
    changed: bool = True  # a job has changed since the last scheduling pass
    reconcile_timers: TimerQueue[str] = field(default_factory=TimerQueue)
    reconciling: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # tasks by name
    rerun: set[str] = field(default_factory=set)  # jobs and tasks that became due again while they ran
    reloaded_at: float = float("-inf")
    lease_lost: bool = False
