"""While the job trains: everything that is watched beside it, and what is published when it has ended.

Whatever is not needed to show the first line of output is loaded after the process has been started.
"""

from __future__ import annotations

import os
import time

from anygpu.agent.host import processes
from anygpu.agent.run import stopping
from anygpu.agent.run.loop import LoopTask
from anygpu.agent.run.metrics import ScriptReports
from anygpu.agent.run.output import OutputStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.attempt import AttemptRunner
    from anygpu.agent.checkpoints.upload import BackgroundUploader
    from anygpu.agent.checkpoints.watch import CheckpointWatcher
    from anygpu.agent.host.telemetry import TelemetrySampler
    from anygpu.agent.link.spool import Point
    from anygpu.agent.run.loop import ProcessEnd
    from anygpu.agent.run.preemption import PreemptionNotice
    from anygpu.agent.run.process import JobProcess

ADOPT_AFTER_S = 0.3
FIRST_POLL_S = 1.0
FILE_CLOCK_S = 0.01  # the kernel stamps files by a clock that may be a tick behind
REAP_EVERY_S = 5.0
WAIT_EVERY_S = 0.5
NEVER_S = 1e9


class TrainingMonitor:
    """The process, its output, its points, its files, its machine."""

    def __init__(self, attempt: AttemptRunner, cwd: str) -> None:
        self._attempt = attempt
        self._cwd = cwd
        self._began_s = time.time() - FILE_CLOCK_S
        self._snapshots = attempt.attempt_dir.join("snapshots")
        self._stream = OutputStream(attempt.reporter, attempt.mask, attempt.steps)
        self._points = ScriptReports(
            os.path.join(attempt.attempt_dir.channel_dir, "points.jsonl"), attempt.steps
        )
        self._points.on_points = self._take_points
        self._points.on_progress = self._take_progress
        self._points.on_checkpoint = self._take_checkpoint
        self._points.on_artifact = self._take_artifact
        self._uploader_made: BackgroundUploader | None = None
        self._watcher_made: CheckpointWatcher | None = None
        self._telemetry: TelemetrySampler | None = None

    def run(self, process: JobProcess) -> ProcessEnd:
        """Until it has ended and all it said has been read."""
        loop, now = self._attempt.loop, time.monotonic()
        loop.tasks = [
            LoopTask(self._stream.tick, now + FIRST_POLL_S),
            LoopTask(self._points.poll, now),
            LoopTask(_become_subreaper, now + ADOPT_AFTER_S),
            LoopTask(_reap_task(process.pid), now + REAP_EVERY_S),
            LoopTask(self._poll_checkpoints, now + FIRST_POLL_S),
            LoopTask(self._sample_telemetry, now + FIRST_POLL_S),
        ]
        loop.on_short_notice = self._upload_settled_files
        ending = loop.run(process, self._stream.feed)
        loop.tasks = []
        if self._telemetry is not None:
            self._telemetry.close()
        self._points.read()
        self._stream.close()
        return ending

    def publish_results(self, ending: ProcessEnd) -> None:
        """A cancelled job gets its grace and no more, one whose machine goes what time is left; any other is
        published whole.
        """
        attempt, stop = self._attempt, ending.stop
        until = time.monotonic() + attempt.assignment.deliver_s
        if stop is not None and stop.outcome == "cancelled":
            until = time.monotonic() + attempt.job.grace_s
        elif stop is not None and stop.publish_until is not None:
            until = stop.publish_until
            self._uploader().set_deadline(until)
        attempt.reporter.start_phase("finishing")
        self._watcher().publish_changed()
        from anygpu.agent.checkpoints.upload import upload_outputs

        upload_outputs(self._cwd, attempt.job.outputs, self._snapshots, self._uploader())
        self._wait_for_uploads(until)
        self._report_upload_problems()
        self._mark_preempted_if_unpublished(ending)

    def _mark_preempted_if_unpublished(self, ending: ProcessEnd) -> None:
        """A job that ended well is not done when its machine went before its results got away: it goes on elsewhere."""
        notice, uploader = self._attempt.loop.notice, self._uploader()
        if notice is not None and ending.stop is None and (uploader.gave_up or not uploader.is_idle()):
            ending.stop = stopping.preemption_stop(time.monotonic(), notice)

    def last_line(self) -> str:
        return self._stream.last_line()

    def _upload_settled_files(self) -> None:
        """There may be no time for what the script saves now: what has settled goes up meanwhile."""
        stop = self._attempt.loop.stop
        assert stop is not None
        assert stop.publish_until is not None
        self._points.read()
        self._uploader().set_deadline(stop.publish_until)
        self._watcher().publish_settled()

    def _wait_for_uploads(self, until: float) -> None:
        attempt, uploader = self._attempt, self._uploader()
        while not uploader.is_idle() and time.monotonic() < until and attempt.orders.rejection is None:
            uploader.wait(WAIT_EVERY_S)
            attempt.reporter.flush_when_due()
            if attempt.loop.notice is not None:
                until = min(until, self._shorten_deadline(attempt.loop.notice))
            wanted = attempt.orders.current or {}
            if wanted.get("kind") == "cancel":
                until = min(until, time.monotonic() + attempt.job.grace_s)

    def _shorten_deadline(self, notice: PreemptionNotice) -> float:
        """The machine goes while results are published: until when they may be."""
        until = stopping.preemption_stop(time.monotonic(), notice).publish_until
        assert until is not None
        self._uploader().set_deadline(until)
        return until

    def _uploader(self) -> BackgroundUploader:
        if self._uploader_made is None:
            from anygpu.agent.checkpoints.upload import BackgroundUploader

            size = int(self._attempt.job.env.get("WORLD_SIZE") or 1)
            spool = self._attempt.spool
            self._uploader_made = BackgroundUploader(
                self._attempt.connect, self._attempt.orders, world_size=size, reported=lambda: spool.acked
            )
        return self._uploader_made

    def _watcher(self) -> CheckpointWatcher:
        if self._watcher_made is None:
            from anygpu.agent.checkpoints.watch import CheckpointWatcher

            attempt = self._attempt
            self._watcher_made = CheckpointWatcher(
                self._cwd,
                attempt.job.checkpoint,
                self._snapshots,
                attempt.steps,
                self._uploader(),
                self._began_s,
            )
        return self._watcher_made

    def _poll_checkpoints(self, now: float) -> float:
        self._report_upload_problems()
        return self._watcher().poll(now)

    def _report_upload_problems(self) -> None:
        troubles = self._uploader().problems
        while troubles:
            self._attempt.reporter.write_line(self._attempt.mask.mask_text(troubles.pop(0)))

    def _sample_telemetry(self, now: float) -> float:
        if self._telemetry is None:
            from anygpu.agent.host.telemetry import TelemetrySampler

            attempt = self._attempt
            self._telemetry = TelemetrySampler(
                attempt.assignment.telemetry_every_s, attempt.attempt_dir.path, attempt.reporter.add_telemetry
            )
            return now + FIRST_POLL_S
        return self._telemetry.poll(now)

    def _take_points(self, points: list[Point]) -> None:
        """A script that logs is not also read: the same loss must not appear twice."""
        self._stream.script_logs_metrics = True
        self._attempt.reporter.add_points(points)

    def _take_progress(self, progress: dict[str, Any]) -> None:
        self._stream.script_reports_progress = True
        if "message" in progress:
            progress["message"] = self._attempt.mask.mask_text(progress["message"])
        self._attempt.reporter.update_progress(progress)

    def _take_checkpoint(self, said: dict[str, Any]) -> None:
        from anygpu.agent.checkpoints.upload import PendingUpload

        self._watcher().disabled = True
        path = said["path"]
        step = (
            said["step"]
            if said.get("step") is not None
            else self._attempt.steps.step_at(float(said.get("t") or 0))
        )
        snapshot = self._snapshot_of(said, "checkpoints")
        prefix = os.path.dirname(self._relative(path))
        prefix = f"{prefix}/" if prefix else ""
        self._attempt.reporter.flush()
        after = self._attempt.spool.last_seq
        self._uploader().add(PendingUpload("said", snapshot, step=int(step), prefix=prefix, after_seq=after))

    def _take_artifact(self, said: dict[str, Any]) -> None:
        from anygpu.agent.checkpoints.upload import PendingUpload

        snapshot = self._snapshot_of(said, "artifacts")
        name = self._safe_name(said.get("name")) or os.path.basename(said["path"])
        self._uploader().add(PendingUpload(f"artifact {name}", snapshot, name=name))

    def _snapshot_of(self, said: dict[str, Any], folder: str) -> str:
        """The copy the script made before it told us. Only its own folder counts."""
        number = os.path.basename(said["snapshot"])
        return os.path.join(self._attempt.attempt_dir.channel_dir, folder, number)

    def _relative(self, path: str) -> str:
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self._cwd))
        return os.path.basename(path) if inside.startswith("..") else inside

    def _safe_name(self, name: Any) -> str | None:
        parts = [part for part in str(name or "").split("/") if part not in ("", ".", "..")]
        return "/".join(parts) or None


def _become_subreaper(now: float) -> float:
    processes.become_subreaper()
    return now + NEVER_S


def _reap_task(pid: int) -> Callable[[float], float]:
    """Adopted children that ended are collected; the job's own process is waited for by the loop."""

    def reap(now: float) -> float:
        processes.reap_children({pid})
        return now + REAP_EVERY_S

    return reap
