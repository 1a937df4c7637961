"""Watch the checkpoint files of scripts that do not call `anygpu.checkpoint`, and upload them once complete."""

from __future__ import annotations

import os
import time

from anygpu.agent.attempt_dir import STATE_DIR
from anygpu.agent.checkpoints import snapshot
from anygpu.agent.checkpoints.snapshot import find_files
from anygpu.agent.checkpoints.upload import PendingUpload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from anygpu.agent.assignment import CheckpointRule
    from anygpu.agent.attempt_dir import JobDirectories
    from anygpu.agent.checkpoints.steps import StepLabel
    from anygpu.agent.checkpoints.upload import BackgroundUploader

    Signatures = dict[str, tuple[int, int, int]]

POLL_S = 2.0  # or twice per upload interval, if that is shorter
SCAN_TIME_DIVISOR = 200  # scans use at most 1/200 of the time
UPLOAD_KEY = "watched"


class CheckpointWatcher:
    """Scans the files that match `checkpoint.paths`, and uploads them after they have changed.

    A file may be incomplete while the script writes it, so files are uploaded only after two scans in a row
    found the same files with the same sizes and times. Files from before the start of the job count as
    uploaded. If the job runs in place, such files are never uploaded, because they may belong to another run
    of the user; only files of the checkpoint that the job resumes from are an exception. `disabled` is set once
    the script announces its checkpoints with `anygpu.checkpoint`.
    """

    def __init__(
        self,
        directories: JobDirectories,
        rule: CheckpointRule,
        restored: Collection[str],
        snapshots: str,
        label_at: Callable[[float, str], StepLabel],
        uploader: BackgroundUploader,
        started_s: float,
    ) -> None:
        """Create the watcher.

        `restored` has the names of the files of the checkpoint that the job resumes from. `label_at` returns
        the label of a file, given the Unix time at which it was written and its name. `started_s` is when the
        job started (Unix time).
        """
        self._directories = directories
        self._paths = rule.paths
        self._every_s = rule.every_s
        self._poll_s = min(POLL_S, max(rule.every_s / 2, 0.2))
        self._snapshots = snapshots
        self._label_at = label_at
        self._uploader = uploader
        self._seen: Signatures = {}
        self._foreign: Signatures = {}
        old = {name: signature for name, signature in self._scan().items() if signature[1] < started_s * 1e9}
        if directories.in_place:
            self._foreign = {name: signature for name, signature in old.items() if name not in restored}
        self._published = {name: signature for name, signature in old.items() if name not in self._foreign}
        self._published_at = float("-inf")
        self._linkable: set[str] = set()
        self._last: PendingUpload | None = None
        self._count = 0
        self.disabled = False

    def poll(self, now: float) -> float:
        """Scan the files, and upload them if they have changed, are complete, and `every_s` has passed.

        Return the time of the next scan (monotonic clock).
        """
        if self.disabled:
            return now + 1e9
        start = time.monotonic()
        files = self._scan()
        if files == self._seen and self._has_changes(files) and now - self._published_at >= self._every_s:
            self._publish(files, now)
        self._remember(files)
        return now + max(self._poll_s, SCAN_TIME_DIVISOR * (time.monotonic() - start))

    def publish_settled(self) -> None:
        """Upload immediately all files that have not changed since the last scan."""
        files = self._scan()
        settled = {name: signature for name, signature in files.items() if self._seen.get(name) == signature}
        if not self.disabled and self._has_changes(settled):
            self._publish(settled, time.monotonic())

    def publish_changed(self) -> None:
        """Upload all changed files. Called after the job has ended, when no process writes to them any more."""
        files = self._scan()
        if not self.disabled and self._has_changes(files):
            self._publish(files, time.monotonic())

    def _scan(self) -> Signatures:
        files = find_files(self._directories.cwd, self._paths)
        files.update(find_files(self._directories.state_root, [f"{STATE_DIR}/checkpoints"]))
        signatures = {name: snapshot.file_signature(status) for name, status in files.items()}
        return {
            name: signature for name, signature in signatures.items() if self._foreign.get(name) != signature
        }

    def _has_changes(self, files: Signatures) -> bool:
        if self._last is not None and self._last.failed:
            return bool(files)
        return bool(files) and files != self._published

    def _remember(self, files: Signatures) -> None:
        """Store the result of a scan for comparison with the next one.

        A path with a new inode was replaced by rename, not changed in place. Later snapshots may hard-link
        such a file instead of copying it.
        """
        for name, (_, _, inode) in files.items():
            if name in self._seen and self._seen[name][2] != inode:
                self._linkable.add(name)
        self._seen = files

    def _publish(self, files: Signatures, now: float) -> None:
        self._count += 1
        target = os.path.join(self._snapshots, str(self._count))
        linkable = set(self._linkable)
        newest = max(files, key=lambda name: files[name][1])
        self._last = PendingUpload(
            UPLOAD_KEY,
            make_snapshot=lambda: self._take_snapshot(list(files), target, linkable),
            label=self._label_at(files[newest][1] / 1e9, newest),
        )
        self._uploader.add(self._last)
        self._published, self._published_at = files, now

    def _take_snapshot(self, names: list[str], target: str, linkable: set[str]) -> str:
        for root in {self._directories.root_of(name) for name in names}:
            below = [name for name in names if self._directories.root_of(name) == root]
            snapshot.take_snapshot(root, below, target, linkable)
        return target
