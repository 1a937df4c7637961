"""While the job trains: everything that is watched beside it, and what is published when it has ended.

Whatever is not needed to show the first line of output is loaded after the process has been started.
"""

from __future__ import annotations

import os
import time

from anygpu.agent import descendants, stopping
from anygpu.agent.loop import Chore
from anygpu.agent.points import Points
from anygpu.agent.stream import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.attempt import Attempt
    from anygpu.agent.checkpoints import Watcher
    from anygpu.agent.frames import Point
    from anygpu.agent.loop import Ending
    from anygpu.agent.notices import Notice
    from anygpu.agent.process import Process
    from anygpu.agent.uploader import Uploader

ADOPT_AFTER_S = 0.3
FIRST_LOOK_S = 1.0
FILE_CLOCK_S = 0.01  # the kernel stamps files by a clock that may be a tick behind
REAP_EVERY_S = 5.0
WAIT_EVERY_S = 0.5
FOR_EVER_S = 1e9


class Training:
    """The process, its output, its points, its files, its machine."""

    def __init__(self, attempt: Attempt, cwd: str) -> None:
        self._attempt = attempt
        self._cwd = cwd
        self._began_s = time.time() - FILE_CLOCK_S
        self._snapshots = attempt.home.join("snapshots")
        self._stream = Stream(attempt.report, attempt.mask, attempt.steps)
        self._points = Points(os.path.join(attempt.home.channel, "points.jsonl"), attempt.steps)
        self._points.on_points = self._take_points
        self._points.on_progress = self._take_progress
        self._points.on_checkpoint = self._take_checkpoint
        self._points.on_artifact = self._take_artifact
        self._uploader_made: Uploader | None = None
        self._watcher_made: Watcher | None = None
        self._telemetry: Any = None

    def watch(self, process: Process) -> Ending:
        """Until it has ended and all it said has been read."""
        loop, now = self._attempt.loop, time.monotonic()
        loop.chores = [
            Chore(self._stream.rest, now + FIRST_LOOK_S),
            Chore(self._points.look, now),
            Chore(_adopt_orphans, now + ADOPT_AFTER_S),
            Chore(_reaping(process.pid), now + REAP_EVERY_S),
            Chore(self._look_at_checkpoints, now + FIRST_LOOK_S),
            Chore(self._measure, now + FIRST_LOOK_S),
        ]
        loop.on_haste = self._save_what_is_there
        ending = loop.run(process, self._stream.take)
        loop.chores = []
        if self._telemetry is not None:
            self._telemetry.close()
        self._points.read()
        self._stream.close()
        return ending

    def publish_results(self, ending: Ending) -> None:
        """A cancelled job gets its grace and no more, one whose machine goes what time is left; any other is
        published whole.
        """
        attempt, stop = self._attempt, ending.stop
        until = time.monotonic() + attempt.assignment.deliver_s
        if stop is not None and stop.outcome == "cancelled":
            until = time.monotonic() + attempt.work.grace_s
        elif stop is not None and stop.until is not None:
            until = stop.until
            self._uploader().hurry(until)
        attempt.report.phase("finishing")
        self._watcher().save_what_changed()
        from anygpu.agent.artifacts import publish_outputs

        publish_outputs(self._cwd, attempt.work.outputs, self._snapshots, self._uploader())
        self._wait_for_uploads(until)
        self._say_troubles()
        self._notice_what_is_left_behind(ending)

    def _notice_what_is_left_behind(self, ending: Ending) -> None:
        """A job that ended well is not done when its machine went before its results got away: it goes on elsewhere."""
        notice, uploader = self._attempt.loop.notice, self._uploader()
        if notice is not None and ending.stop is None and (uploader.gave_up or not uploader.is_idle()):
            ending.stop = stopping.by_notice(time.monotonic(), notice)

    def last_line(self) -> str:
        return self._stream.last_line()

    def _save_what_is_there(self) -> None:
        """There may be no time for what the script saves now: what has settled goes up meanwhile."""
        stop = self._attempt.loop.stop
        assert stop is not None
        assert stop.until is not None
        self._points.read()
        self._uploader().hurry(stop.until)
        self._watcher().save_what_settled()

    def _wait_for_uploads(self, until: float) -> None:
        attempt, uploader = self._attempt, self._uploader()
        while not uploader.is_idle() and time.monotonic() < until and attempt.orders.rejection is None:
            uploader.wait_a_moment(WAIT_EVERY_S)
            attempt.report.flush_when_due()
            if attempt.loop.notice is not None:
                until = min(until, self._hurry(attempt.loop.notice))
            wanted = attempt.orders.wanted or {}
            if wanted.get("kind") == "cancel":
                until = min(until, time.monotonic() + attempt.work.grace_s)

    def _hurry(self, notice: Notice) -> float:
        """The machine goes while results are published: until when they may be."""
        until = stopping.by_notice(time.monotonic(), notice).until
        assert until is not None
        self._uploader().hurry(until)
        return until

    def _uploader(self) -> Uploader:
        if self._uploader_made is None:
            from anygpu.agent.uploader import Uploader

            size = int(self._attempt.work.env.get("WORLD_SIZE") or 1)
            spool = self._attempt.spool
            self._uploader_made = Uploader(
                self._attempt.server, self._attempt.orders, world_size=size, reported=lambda: spool.acked
            )
        return self._uploader_made

    def _watcher(self) -> Watcher:
        if self._watcher_made is None:
            from anygpu.agent.checkpoints import Watcher

            attempt = self._attempt
            self._watcher_made = Watcher(
                self._cwd,
                attempt.work.checkpoint,
                self._snapshots,
                attempt.steps,
                self._uploader(),
                self._began_s,
            )
        return self._watcher_made

    def _look_at_checkpoints(self, now: float) -> float:
        self._say_troubles()
        return self._watcher().look(now)

    def _say_troubles(self) -> None:
        troubles = self._uploader().trouble
        while troubles:
            self._attempt.report.line(self._attempt.mask.text(troubles.pop(0)))

    def _measure(self, now: float) -> float:
        if self._telemetry is None:
            from anygpu.agent.telemetry import Telemetry

            attempt = self._attempt
            self._telemetry = Telemetry(
                attempt.assignment.telemetry_every_s, attempt.home.path, attempt.report.telemetry
            )
            return now + FIRST_LOOK_S
        return float(self._telemetry.measure(now))

    def _take_points(self, points: list[Point]) -> None:
        """A script that logs is not also read: the same loss must not appear twice."""
        self._stream.script_logs_itself = True
        self._attempt.report.points(points)

    def _take_progress(self, progress: dict[str, Any]) -> None:
        self._stream.script_tells_progress = True
        if "message" in progress:
            progress["message"] = self._attempt.mask.text(progress["message"])
        self._attempt.report.progress(progress)

    def _take_checkpoint(self, said: dict[str, Any]) -> None:
        from anygpu.agent.uploader import Upload

        self._watcher().off = True
        path = said["path"]
        step = (
            said["step"]
            if said.get("step") is not None
            else self._attempt.steps.at(float(said.get("t") or 0))
        )
        snapshot = self._snapshot_of(said, "checkpoints")
        prefix = os.path.dirname(self._relative(path))
        prefix = f"{prefix}/" if prefix else ""
        self._attempt.report.flush()
        after = self._attempt.spool.last_seq
        self._uploader().add(Upload("said", snapshot, step=int(step), prefix=prefix, after=after))

    def _take_artifact(self, said: dict[str, Any]) -> None:
        from anygpu.agent.uploader import Upload

        snapshot = self._snapshot_of(said, "artifacts")
        name = self._safe_name(said.get("name")) or os.path.basename(said["path"])
        self._uploader().add(Upload(f"artifact {name}", snapshot, name=name))

    def _snapshot_of(self, said: dict[str, Any], folder: str) -> str:
        """The copy the script made before it told us. Only its own folder counts."""
        number = os.path.basename(said["snapshot"])
        return os.path.join(self._attempt.home.channel, folder, number)

    def _relative(self, path: str) -> str:
        inside = os.path.relpath(os.path.realpath(path), os.path.realpath(self._cwd))
        return os.path.basename(path) if inside.startswith("..") else inside

    def _safe_name(self, name: Any) -> str | None:
        parts = [part for part in str(name or "").split("/") if part not in ("", ".", "..")]
        return "/".join(parts) or None


def _adopt_orphans(now: float) -> float:
    descendants.adopt_orphans()
    return now + FOR_EVER_S


def _reaping(pid: int) -> Callable[[float], float]:
    """Adopted children that ended are collected; the job's own process is waited for by the loop."""

    def reap(now: float) -> float:
        descendants.reap({pid})
        return now + REAP_EVERY_S

    return reap
