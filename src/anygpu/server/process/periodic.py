"""Periodic work of the server: record the time and cost of completed jobs, and remove old data."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from anygpu.control.accounting.outcomes import OUTCOME_BATCH, OutcomeRecorder
from anygpu.control.clock import Clock
from anygpu.errors import BlobCorrupt, BlobMissing, InvalidSpec, TooLarge, UnsafePath
from anygpu.events.fold import Recorded
from anygpu.events.types import JobCompleted
from anygpu.events.view import JobView
from anygpu.server.process import log
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.keys import folders_of_job, uploads_folder
from anygpu.store.blobs.snapshots import Snapshots
from anygpu.store.blobs.sweep import (
    DAY_MS,
    DEFAULT_POLICY,
    BlobSweepResult,
    References,
    SweepPolicy,
    restore_referenced,
    sweep_blobs,
)
from anygpu.store.blobs.uploads import Uploads
from anygpu.store.identity import StoreIdentity

POLL_S = 60.0


class OutcomeWriter:
    """Records the time and cost of completed jobs: after each commit, and periodically for jobs of other processes."""

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


KeptJobs = Callable[[int], AsyncIterator[JobView]]
Prune = Callable[[int, bool], Awaitable[dict[str, int]]]
CHECK_LIMIT_S = 5.0  # the server starts without the check if the blob store does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """What an operator may choose when old data is removed: the options of `anygpu gc`."""

    dry_run: bool = False
    force: bool = False
    adopt: bool = False
    empty_trash: bool = False


class Retention:
    """Removes the output of jobs that ended long ago, and files that no remaining job refers to.

    `kept_jobs(since_ms)` yields the jobs that are live or ended after `since_ms`. `prune(before_ms, dry_run)`
    removes the output of jobs that ended before `before_ms`. `refusal` says why files are not removed, if so.
    """

    def __init__(
        self,
        blobs: Blobs,
        uploads: Uploads,
        snapshots: Snapshots,
        identity: StoreIdentity,
        kept_jobs: KeptJobs,
        prune: Prune,
        clock: Clock,
        *,
        keep_days: float,
        policy: SweepPolicy = DEFAULT_POLICY,
    ) -> None:
        self._blobs, self._uploads, self._snapshots = blobs, uploads, snapshots
        self._identity = identity
        self._kept_jobs, self._prune = kept_jobs, prune
        self._clock, self._policy = clock, policy
        self._keep_ms = int(keep_days * DAY_MS)
        self.refusal = ""

    async def apply(self, options: RetentionOptions) -> dict[str, Any]:
        now_ms = self._clock.wall_ms()
        removed = await self._prune(self._kept_since(now_ms), options.dry_run)
        if options.adopt and not options.dry_run:
            await self._identity.adopt()
        swept = await self._sweep(now_ms, options)
        self._set_refusal(swept.refused)
        return {
            **removed,
            "files": swept.count,
            "bytes": swept.size,
            "restored_files": swept.restored,
            "purged_files": swept.purged,
            "purged_bytes": swept.purged_size,
            "refused": swept.refused or None,
        }

    async def check_start(self) -> None:
        """Check that the database and the blob store belong together.

        A failure is only logged, because the server can do its other work.
        """
        try:
            async with asyncio.timeout(CHECK_LIMIT_S):
                self._set_refusal(await self._identity.check())
        except Exception as error:  # noqa: BLE001  the next collection checks again
            log.failure("the identity of the blob store was not checked, and will be checked later", error)

    async def run_every(self, seconds: float) -> None:
        """Remove old data every so many `seconds`; never if 0. Failures are logged and retried."""
        await self._log_failure(self._restore())
        while seconds > 0:
            await self._clock.sleep(seconds)
            await self._log_failure(self._apply_and_log())

    async def _apply_and_log(self) -> None:
        log.info("retention applied", **await self.apply(RetentionOptions()))

    async def _log_failure(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  retention must not end the server
            log.failure("retention failed and will be retried", error)

    async def _restore(self) -> None:
        now_ms = self._clock.wall_ms()
        if self.refusal:
            return
        references = await self._references(self._kept_since(now_ms))
        count = await restore_referenced(self._blobs, references, now_ms=now_ms)
        if count:
            log.info("moved files back from the trash, because jobs refer to them", files=count)

    async def _sweep(self, now_ms: int, options: RetentionOptions) -> BlobSweepResult:
        reason = await self._identity.check()
        if not reason and not options.force:
            reason = await self._identity.check_jobs()
        if reason:
            return BlobSweepResult(refused=reason)
        return await sweep_blobs(
            self._blobs,
            await self._references(self._kept_since(now_ms)),
            now_ms=now_ms,
            policy=self._policy,
            force=options.force,
            empty_trash=options.empty_trash,
            dry_run=options.dry_run,
        )

    def _kept_since(self, now_ms: int) -> int:
        return now_ms - self._keep_ms if self._keep_ms else 0

    def _set_refusal(self, reason: str) -> None:
        if reason and reason != self.refusal:
            log.warning("stored files are not removed", reason=reason)
        self.refusal = reason

    async def _references(self, since_ms: int) -> References:
        keys: set[str] = set()
        snapshots: set[tuple[str, str]] = set()
        folders: set[str] = set()
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
            if view.damaged:  # what it refers to is not known for certain
                folders.update(folders_of_job(view.organisation, view.id))
        for organisation, sha256 in snapshots:
            try:
                keys |= await self._snapshots.upload_keys(organisation, sha256)
            except (BlobMissing, BlobCorrupt, InvalidSpec, TooLarge, UnsafePath):
                folders.add(uploads_folder(organisation))  # its list cannot be read, so all contents are kept
        return References(keys=keys, folders=folders)
