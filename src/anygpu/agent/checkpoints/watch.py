"""Checkpoints of scripts that know nothing of anygpu.

Files are watched, and published when they have settled.
"""

from __future__ import annotations

import os
import time

from anygpu.agent.attempt_dir import STATE_DIR
from anygpu.agent.checkpoints import snapshot
from anygpu.agent.checkpoints.snapshot import find_files
from anygpu.agent.checkpoints.upload import PendingUpload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.assignment import CheckpointRule
    from anygpu.agent.checkpoints.upload import BackgroundUploader
    from anygpu.agent.run.metrics import StepHistory

    Signatures = dict[str, tuple[int, int, int]]

POLL_S = 2.0  # or twice as often as publishing is wanted, when that is more
SCAN_TIME_DIVISOR = 200  # looking takes at most one part in so many of the time
UPLOAD_KEY = "watched"


class CheckpointWatcher:
    """Looks at `checkpoint.paths`; a changed set that held still between two looks is worth publishing.

    What was there before the job began is no news. `off` when the script itself says what its checkpoints are.
    """

    def __init__(
        self,
        cwd: str,
        rule: CheckpointRule,
        snapshots: str,
        steps: StepHistory,
        uploader: BackgroundUploader,
        began_s: float,
    ) -> None:
        self._cwd = cwd
        self._paths = [*rule.paths, f"{STATE_DIR}/checkpoints"]
        self._every_s = rule.every_s
        self._poll_s = min(POLL_S, max(rule.every_s / 2, 0.2))
        self._snapshots = snapshots
        self._steps = steps
        self._uploader = uploader
        self._seen: Signatures = {}
        self._published = {name: one for name, one in self._scan().items() if one[1] < began_s * 1e9}
        self._published_at = float("-inf")
        self._linkable: set[str] = set()
        self._last: PendingUpload | None = None
        self._count = 0
        self.disabled = False

    def poll(self, now: float) -> float:
        """A chore of the loop."""
        if self.disabled:
            return now + 1e9
        began = time.monotonic()
        found = self._scan()
        if found == self._seen and self._has_changes(found) and now - self._published_at >= self._every_s:
            self._publish(found, now)
        self._remember(found)
        return now + max(self._poll_s, SCAN_TIME_DIVISOR * (time.monotonic() - began))

    def publish_settled(self) -> None:
        """Now, without waiting for its turn: what has not changed since the last look."""
        found = self._scan()
        settled = {name: one for name, one in found.items() if self._seen.get(name) == one}
        if not self.disabled and self._has_changes(settled):
            self._publish(settled, time.monotonic())

    def publish_changed(self) -> None:
        """At the end: nobody writes any more, so what is there is complete or will never be."""
        found = self._scan()
        if not self.disabled and self._has_changes(found):
            self._publish(found, time.monotonic())

    def _scan(self) -> Signatures:
        found = find_files(self._cwd, self._paths)
        return {name: snapshot.file_signature(status) for name, status in found.items()}

    def _has_changes(self, found: Signatures) -> bool:
        if self._last is not None and self._last.failed:
            return bool(found)
        return bool(found) and found != self._published

    def _remember(self, found: Signatures) -> None:
        """A path that got a new inode is replaced by rename, and may be linked instead of copied."""
        for name, (_, _, inode) in found.items():
            if name in self._seen and self._seen[name][2] != inode:
                self._linkable.add(name)
        self._seen = found

    def _publish(self, found: Signatures, now: float) -> None:
        self._count += 1
        target = os.path.join(self._snapshots, str(self._count))
        linkable = set(self._linkable)
        newest_s = max(mtime_ns for _, mtime_ns, _ in found.values()) / 1e9
        self._last = PendingUpload(
            UPLOAD_KEY,
            make_snapshot=lambda: snapshot.take_snapshot(self._cwd, list(found), target, linkable),
            step=self._steps.step_at(newest_s),
        )
        self._uploader.add(self._last)
        self._published, self._published_at = found, now
