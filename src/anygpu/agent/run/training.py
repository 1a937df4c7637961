"""Watch the job while it trains, and publish its checkpoints and results.

Modules that are not needed for the first line of output are imported after the process has started.
"""

from __future__ import annotations

import os
import time

from anygpu import bounds
from anygpu.agent.host import processes
from anygpu.agent.host.memory import JobMemory
from anygpu.agent.run import stopping
from anygpu.agent.run.loop import LoopTask
from anygpu.agent.run.metrics import ScriptReports
from anygpu.agent.run.output import OutputStream
from anygpu.agent.run.rank_lines import first_rank_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.assignment import Assignment, JobInstructions
    from anygpu.agent.attempt_dir import AttemptDir, JobDirectories
    from anygpu.agent.checkpoints.results import ResultFinder
    from anygpu.agent.checkpoints.steps import StepHistory
    from anygpu.agent.checkpoints.upload import BackgroundUploader
    from anygpu.agent.checkpoints.watch import CheckpointWatcher
    from anygpu.agent.host.telemetry import TelemetrySampler
    from anygpu.agent.link.client import ServerClient
    from anygpu.agent.link.orders import ServerOrders
    from anygpu.agent.link.reporter import Reporter
    from anygpu.agent.link.spool import Point
    from anygpu.agent.run.loop import ProcessEnd, ProcessLoop
    from anygpu.agent.run.output import SecretMask
    from anygpu.agent.run.preemption import PreemptionNotice
    from anygpu.agent.run.process import JobProcess

FIRST_POLL_S = 1.0
FILE_CLOCK_S = 0.01  # file times may be one clock tick behind
REAP_EVERY_S = 5.0
UPLOAD_POLL_S = 0.5
MAX_WORLD_SIZE = 1_000_000  # the server refuses more


class TrainingMonitor:
    """Watches the job's output, its reports through `import anygpu`, its checkpoint files, and the machine."""

    def __init__(
        self,
        assignment: Assignment,
        attempt_dir: AttemptDir,
        directories: JobDirectories,
        reporter: Reporter,
        mask: SecretMask,
        steps: StepHistory,
        loop: ProcessLoop,
        orders: ServerOrders,
        connect: Callable[[], ServerClient],
    ) -> None:
        self._assignment = assignment
        self._attempt_dir = attempt_dir
        self._directories = directories
        self._reporter = reporter
        self._mask = mask
        self._steps = steps
        self._loop = loop
        self._orders = orders
        self._connect = connect
        self._publishes = (
            assignment.job.ranks.node == 0
        )  # other nodes publish neither checkpoints nor results
        self._started_s = time.time() - FILE_CLOCK_S
        self._snapshots = attempt_dir.join("snapshots")
        self._output = OutputStream(reporter, mask, steps, first_rank_of(assignment.job.ranks))
        self._script = ScriptReports(os.path.join(attempt_dir.channel_dir, "points.jsonl"), steps)
        self._script.on_points = self._add_points
        self._script.on_progress = self._update_progress
        self._script.on_checkpoint = self._upload_checkpoint
        self._script.on_artifact = self._upload_artifact
        self._script.on_warning = lambda text: reporter.write_line(mask.mask_text(text))
        self._lazy_uploader: BackgroundUploader | None = None
        self._lazy_watcher: CheckpointWatcher | None = None
        self._telemetry: TelemetrySampler | None = None
        self._results = self._result_finder()
        self._memory = JobMemory()

    def run(self, process: JobProcess) -> ProcessEnd:
        """Run until the process has ended and all its output is read."""
        loop, now = self._loop, time.monotonic()
        loop.tasks = [
            LoopTask(self._output.tick, now + FIRST_POLL_S),
            LoopTask(self._script.poll, now),
            LoopTask(_reap_task(process.pid), now + REAP_EVERY_S),
            LoopTask(self._sample_telemetry, now + FIRST_POLL_S),
            LoopTask(self._memory.poll, now + FIRST_POLL_S),
        ]
        if self._publishes:
            loop.tasks.append(LoopTask(self._poll_checkpoints, now + FIRST_POLL_S))
            loop.on_short_notice = self._upload_settled_files
        end = loop.run(process, self._output.feed)
        loop.tasks = []
        if self._telemetry is not None:
            self._telemetry.close()
        self._script.read()
        self._output.close()
        return end

    def publish_results(self, end: ProcessEnd) -> None:
        """Upload the last checkpoint and the outputs.

        The time limit is the grace time for a cancelled job, the time until the machine is taken away for a
        preempted job, and `deliver_s` otherwise. For a job that ended by itself it is extended while uploads progress.
        """
        stop = end.stop
        deadline = time.monotonic() + self._assignment.deliver_s
        if stop is not None and stop.outcome == "cancelled":
            deadline = time.monotonic() + self._assignment.job.grace_s
        elif stop is not None and stop.publish_until is not None:
            deadline = stop.publish_until
            self._uploader().set_deadline(deadline)
        self._reporter.start_phase("finishing")
        if not self._publishes:
            return
        self._watcher().publish_changed()
        from anygpu.agent.checkpoints.upload import upload_outputs

        upload_outputs(
            self._directories,
            self._assignment.job.outputs,
            self._snapshots,
            self._uploader(),
            self._started_s,
            self._result_names(),
        )
        self._wait_for_uploads(deadline, extends=stop is None)
        self._report_upload_problems()
        self._report_unfinished_uploads(end)
        self._mark_preempted_if_unpublished(end)

    def _result_finder(self) -> ResultFinder | None:
        """Record which files the working directory has now, to find the new and changed files (the results) later.

        Return None for a job in place, and if the server did not ask for results.
        """
        if self._assignment.job.results is None or self._directories.in_place:
            return None
        from anygpu.agent.checkpoints.results import ResultFinder, ResultRule

        return ResultFinder(self._directories.cwd, ResultRule(self._assignment.job.results))

    def _result_names(self) -> list[str]:
        if self._results is None:
            return []
        found = self._results.find()
        if found.left_out:
            total = sum(size for _, size in found.left_out) / 2**20
            largest = ", ".join(f"{name} ({size / 2**20:.1f} MiB)" for name, size in found.left_out[:3])
            self._reporter.write_line(
                f"{len(found.left_out)} new files ({total:.1f} MiB) are above the size limit for results and are "
                f"not kept, such as {largest}. To keep files of any size, name them with `outputs` (--output)."
            )
        return found.kept

    def memory_report(self, process: JobProcess) -> dict[str, Any]:
        """Return the memory that the job used, for a job that failed."""
        return self._memory.report(process.pid)

    def last_line(self) -> str:
        return self._output.last_line()

    def _mark_preempted_if_unpublished(self, end: ProcessEnd) -> None:
        """Mark a job that ended by itself as preempted if its results cannot be uploaded before the preemption.

        The job then continues on another machine.
        """
        notice, uploader = self._loop.notice, self._uploader()
        if notice is not None and end.stop is None and (uploader.gave_up or not uploader.is_idle()):
            end.stop = stopping.preemption_stop(time.monotonic(), notice)

    def _upload_settled_files(self) -> None:
        """Upload the checkpoint files that are complete, after a preemption notice that came late.

        The script may not have enough time to save a new checkpoint.
        """
        stop = self._loop.stop
        assert stop is not None
        assert stop.publish_until is not None
        self._script.read()
        self._uploader().set_deadline(stop.publish_until)
        self._watcher().publish_settled()

    def _wait_for_uploads(self, deadline: float, *, extends: bool) -> None:
        uploader = self._uploader()
        while not uploader.is_idle() and self._orders.rejection is None:
            latest = uploader.progress_at + self._assignment.deliver_s if extends else 0.0
            if time.monotonic() >= max(deadline, latest):
                return
            uploader.wait(UPLOAD_POLL_S)
            self._reporter.flush_when_due()
            if self._loop.notice is not None:
                deadline, extends = min(deadline, self._shorten_deadline(self._loop.notice)), False
            if self._is_cancelled():
                deadline, extends = min(deadline, time.monotonic() + self._assignment.job.grace_s), False

    def _is_cancelled(self) -> bool:
        return (self._orders.current or {}).get("kind") == "cancel"

    def _report_unfinished_uploads(self, end: ProcessEnd) -> None:
        """Write what is not uploaded into the log. A job that ended by itself is then no success."""
        names = self._uploader().unfinished()
        if not names or self._orders.rejection is not None:
            return
        listed = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        text = self._mask.mask_text(f"there was not enough time to upload {listed}")
        self._reporter.write_line(text)
        if end.stop is None and not self._is_cancelled():
            end.not_uploaded = text

    def _shorten_deadline(self, notice: PreemptionNotice) -> float:
        """Set and return an earlier upload deadline: a preemption notice came while results were uploaded."""
        deadline = stopping.preemption_stop(time.monotonic(), notice).publish_until
        assert deadline is not None
        self._uploader().set_deadline(deadline)
        return deadline

    def _uploader(self) -> BackgroundUploader:
        if self._lazy_uploader is None:
            from anygpu.agent.checkpoints.upload import BackgroundUploader

            job = self._assignment.job
            reporter = self._reporter
            self._lazy_uploader = BackgroundUploader(
                self._connect, self._orders, _world_size(job), acked_seq=lambda: reporter.acked_seq
            )
        return self._lazy_uploader

    def _watcher(self) -> CheckpointWatcher:
        if self._lazy_watcher is None:
            from anygpu.agent.checkpoints.watch import CheckpointWatcher

            resume = self._assignment.job.resume or {}
            self._lazy_watcher = CheckpointWatcher(
                self._directories,
                self._assignment.job.checkpoint,
                {file["path"] for file in resume.get("files") or ()},
                self._snapshots,
                self._steps.label_at,
                self._uploader(),
                self._started_s,
            )
        return self._lazy_watcher

    def _poll_checkpoints(self, now: float) -> float:
        self._report_upload_problems()
        return self._watcher().poll(now)

    def _report_upload_problems(self) -> None:
        problems = self._uploader().problems
        while problems:
            self._reporter.write_line(self._mask.mask_text(problems.pop(0)))

    def _sample_telemetry(self, now: float) -> float:
        if self._telemetry is None:
            from anygpu.agent.host.telemetry import TelemetrySampler

            self._telemetry = TelemetrySampler(
                self._assignment.telemetry_every_s, self._attempt_dir.path, self._reporter.add_telemetry
            )
            return now + FIRST_POLL_S
        return self._telemetry.poll(now)

    def _add_points(self, points: list[Point]) -> None:
        """Report metrics that the script logged with `import anygpu`.

        From then on the output is not parsed for metrics, so that none is reported twice.
        """
        self._output.script_logs_metrics = True
        self._reporter.add_points(points)

    def _update_progress(self, progress: dict[str, Any]) -> None:
        self._output.script_reports_progress = True
        if "message" in progress:
            progress["message"] = self._mask.mask_text(progress["message"])
        self._reporter.replace_progress(progress)

    def _upload_checkpoint(self, announced: dict[str, Any]) -> None:
        """Upload a checkpoint that the script announced with `anygpu.checkpoint`.

        From then on, checkpoint files are no longer watched.
        """
        from anygpu.agent.checkpoints.upload import PendingUpload

        self._watcher().disabled = True
        step: Any = announced.get("step")
        moment = float(announced.get("t") or 0)
        if bounds.is_count(step):
            label = self._steps.label_for(step)
            self._steps.record(step, moment)
        else:
            label = self._steps.label_at(moment)
        folder = os.path.dirname(self._directories.name_of(announced["path"]))
        self._reporter.flush()
        self._uploader().add(
            PendingUpload(
                "announced checkpoint",
                self._snapshot_path(announced, "checkpoints"),
                label=label,
                prefix=f"{folder}/" if folder else "",
                after_seq=self._reporter.last_seq,
            )
        )

    def _upload_artifact(self, announced: dict[str, Any]) -> None:
        from anygpu.agent.checkpoints.upload import PendingUpload

        snapshot = self._snapshot_path(announced, "artifacts")
        name = _safe_name(announced.get("name")) or os.path.basename(announced["path"])
        self._uploader().add(PendingUpload(f"artifact {name}", snapshot, name=name))

    def _snapshot_path(self, announced: dict[str, Any], folder: str) -> str:
        """Return the path of the copy that `import anygpu` made of an announced checkpoint or artifact.

        Only the last component of the announced path is used, so that it cannot lead to another directory.
        """
        number = os.path.basename(announced["snapshot"])
        parent = os.path.join(self._attempt_dir.channel_dir, folder)
        if not number.isdigit() or os.path.islink(parent):
            raise ValueError(f"{announced['snapshot']!r} is not a path that anygpu.checkpoint() has written")
        return os.path.join(parent, number)


def _safe_name(name: str | None) -> str | None:
    parts = [part for part in str(name or "").split("/") if part not in ("", ".", "..")]
    return "/".join(parts) or None


def _reap_task(pid: int) -> Callable[[float], float]:
    """Return a periodic task that reaps daemonised children of the job that have ended.

    The loop itself waits for the job's process `pid`.
    """

    def reap(now: float) -> float:
        processes.reap_children({pid})
        return now + REAP_EVERY_S

    return reap


def _world_size(job: JobInstructions) -> int:
    """Return the number of processes that checkpoints record. The variable WORLD_SIZE of the job can be any text."""
    if job.has_ranks:
        return job.ranks.world_size
    if job.checkpoint.world_size:
        return job.checkpoint.world_size
    try:
        stated = int(job.env.get("WORLD_SIZE") or 1)
    except ValueError:
        return 1
    return stated if 0 < stated <= MAX_WORLD_SIZE else 1
