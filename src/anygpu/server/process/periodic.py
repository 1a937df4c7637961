"""Periodic work of the server: record the outcomes of completed jobs, and apply retention."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from anygpu.control.clock import Clock
from anygpu.control.outcomes import OUTCOME_BATCH, OutcomeRecorder
from anygpu.events.fold import Recorded
from anygpu.events.types import JobCompleted
from anygpu.events.view import JobView
from anygpu.server.process import log
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.snapshots import Snapshots
from anygpu.store.blobs.sweep import sweep_blobs
from anygpu.store.blobs.uploads import Uploads

POLL_S = 60.0


class OutcomeWriter:
    """Records the outcomes of completed jobs: after a commit, and periodically for jobs of other processes."""

    def __init__(self) -> None:
        self._job_completed = asyncio.Event()

    def on_commit(self, recorded: Iterable[Recorded]) -> None:
        if any(isinstance(each.event, JobCompleted) for each in recorded):
            self._job_completed.set()

    async def run(self, recorder: OutcomeRecorder) -> None:
        """Record outcomes until cancelled."""
        while True:
            self._job_completed.clear()
            try:
                while await recorder.run() >= OUTCOME_BATCH:
                    pass
            except Exception as error:  # noqa: BLE001  the next pass continues
                log.failure("recording outcomes failed and will be retried", error)
            await self._wait()

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self._job_completed.wait(), POLL_S)
        except TimeoutError:
            return


DAY_MS = 86_400_000

KeptJobs = Callable[[int], AsyncIterator[JobView]]
Prune = Callable[[int, bool], Awaitable[dict[str, int]]]


class Retention:
    """Removes the output of jobs that ended long ago, and files that no remaining job refers to.

    `kept_jobs(since_ms)` yields the jobs that are live or ended after `since_ms`. `prune(before_ms, dry_run)`
    removes the output of jobs that ended before `before_ms`.
    """

    def __init__(
        self,
        blobs: Blobs,
        uploads: Uploads,
        snapshots: Snapshots,
        kept_jobs: KeptJobs,
        prune: Prune,
        clock: Clock,
        *,
        keep_days: float,
    ) -> None:
        self._blobs, self._uploads, self._snapshots = blobs, uploads, snapshots
        self._kept_jobs, self._prune = kept_jobs, prune
        self._clock = clock
        self._keep_ms = int(keep_days * DAY_MS)

    async def apply(self, dry_run: bool) -> dict[str, Any]:
        now_ms = self._clock.wall_ms()
        before_ms = now_ms - self._keep_ms if self._keep_ms else 0
        removed = await self._prune(before_ms, dry_run)
        referenced = await self._referenced_keys(before_ms)
        swept = await sweep_blobs(self._blobs, referenced, now_ms=now_ms, dry_run=dry_run)
        return {**removed, "files": swept.count, "bytes": swept.size}

    async def run_every(self, seconds: float) -> None:
        """Apply retention every so many `seconds`; never if 0. Failures are logged and retried."""
        while seconds > 0:
            await self._clock.sleep(seconds)
            try:
                log.info("retention applied", **await self.apply(False))
            except Exception as error:  # noqa: BLE001  retention must not end the server
                log.failure("retention failed and will be retried", error)

    async def _referenced_keys(self, since_ms: int) -> set[str]:
        keys: set[str] = set()
        snapshots: set[tuple[str, str]] = set()
        async for view in self._kept_jobs(since_ms):
            keys.update(checkpoint.manifest for checkpoint in view.checkpoints)
            keys.update(artifact.key for artifact in view.artifacts)
            keys.update([view.plan] if view.plan else [])
            if view.spec.workdir is not None and view.spec.workdir.archive is not None:
                keys.add(self._uploads.key(view.organisation, view.spec.workdir.archive))
            if view.spec.workdir is not None and view.spec.workdir.manifest is not None:
                snapshots.add((view.organisation, view.spec.workdir.manifest))
            if view.spec.dataset is not None:
                keys.update(self._uploads.key(view.organisation, part) for part in view.spec.dataset.parts)
        for organisation, sha256 in snapshots:
            keys |= await self._snapshots.upload_keys(organisation, sha256)
        return keys
