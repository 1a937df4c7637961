"""The uploader.

Checkpoints and artifacts go up in the background, one at a time, the newest when it is behind.
"""

from __future__ import annotations

import os
import threading
import time

from anygpu.agent.http11 import Unreachable
from anygpu.agent.publish import Described, publish
from anygpu.agent.snapshot import discard, files_of
from anygpu.agent.wire import Refused
from anygpu.job import DIRECTORY_MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.orders import Orders
    from anygpu.agent.wire import Server

    Take = Callable[[], str]


REPORT_FIRST_S = 2.0


class Postponed(Exception):
    """Something more important came while this was being uploaded."""


class Upload:
    """Something to publish: a snapshot already made, or `take`, which makes it in the uploader's thread."""

    __slots__ = ("after", "at", "failed", "key", "name", "prefix", "snapshot", "step", "take")

    def __init__(
        self,
        key: str,
        snapshot: str | None = None,
        take: Take | None = None,
        step: int = 0,
        prefix: str = "",
        name: str | None = None,
        after: int = 0,
    ) -> None:
        """`after`: the report that must have arrived first, so that no curve ends before its checkpoint."""
        self.key = key
        self.after = after
        self.snapshot = snapshot
        self.take = take
        self.failed = False
        self.step = step
        self.prefix = prefix
        self.name = name
        self.at = time.time()


class Uploader:
    """Its thread begins with the first thing to do. Of two uploads with one key, only the newer is made."""

    def __init__(
        self,
        server: Callable[[], Server],
        orders: Orders,
        world_size: int,
        reported: Callable[[], int] = lambda: 0,
    ) -> None:
        self._reported = reported
        self._make_server = server
        self._orders = orders
        self._world_size = world_size
        self._waiting: dict[str, Upload] = {}
        self._busy = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self.until = float("inf")
        self._in_haste = False
        self.gave_up = False  # something was left behind for want of time
        self.trouble: list[str] = []
        self.published: dict[str, str] = {}

    def add(self, upload: Upload) -> None:
        with self._changed:
            older = self._waiting.pop(upload.key, None)
            self._waiting[upload.key] = upload
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="uploader", daemon=True)
                self._thread.start()
        if older is not None:
            discard(older.snapshot)

    def hurry(self, until: float) -> None:
        """Until then (monotonic) and no longer: checkpoints before results, the newest first."""
        with self._changed:
            self.until = until
            self._in_haste = True

    def is_idle(self) -> bool:
        with self._changed:
            return not self._waiting and not self._busy

    def wait_a_moment(self, seconds: float) -> None:
        with self._changed:
            if self._waiting or self._busy:
                self._changed.wait(seconds)

    def _run(self) -> None:
        server = self._make_server()
        while True:
            upload = self._next()
            try:
                self._publish(server, upload)
            except (OSError, Unreachable, KeyError, TypeError, ValueError) as error:
                self._failed(upload, f"could not be published: {error}")
            except Refused as refusal:
                if refusal.we_are_nobody and refusal.status != 403:
                    self._orders.reject(refusal)
                self._failed(upload, f"was refused: {refusal}")
            except Postponed:
                with self._changed:
                    self._waiting.setdefault(upload.key, upload)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _failed(self, upload: Upload, why: str) -> None:
        upload.failed = True
        self.gave_up = self.gave_up or self._in_haste
        what = f"the checkpoint of step {upload.step}" if upload.name is None else upload.name
        self.trouble.append(f"{what} {why}")

    def _next(self) -> Upload:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            self._busy = True
            return self._waiting.pop(self._first())

    def _first(self) -> str:
        if not self._in_haste:
            return next(iter(self._waiting))
        return min(
            self._waiting, key=lambda key: (self._waiting[key].name is not None, -self._waiting[key].at)
        )

    def _give_way(self) -> None:
        """Asked between the blocks of a result."""
        with self._changed:
            if self._in_haste and any(upload.name is None for upload in self._waiting.values()):
                raise Postponed

    def _publish(self, server: Server, upload: Upload) -> None:
        snapshot = upload.snapshot or (upload.take() if upload.take is not None else None)
        if snapshot is None:
            return
        try:
            if upload.name is None:
                self._publish_checkpoint(server, upload, snapshot)
            else:
                self._publish_artifact(server, upload.name, snapshot)
        except Postponed:
            upload.snapshot = snapshot
            raise
        except BaseException:
            discard(snapshot)
            raise
        discard(snapshot)

    def _publish_checkpoint(self, server: Server, upload: Upload, snapshot: str) -> None:
        described = [Described(path, upload.prefix + name) for name, path in files_of(snapshot)]
        if not described:
            return
        offer = {
            "step": upload.step,
            "at": upload.at,
            "world_size": self._world_size,
            "files": [one.file for one in described],
        }
        self._wait_for_report(upload.after)
        publish(server, "/agent/v1/checkpoints", offer, _pieces(described), self.until)

    def _wait_for_report(self, seq: int) -> None:
        """What led to a checkpoint is told before it; a moment is all that is given for that."""
        give_up_at = min(time.monotonic() + REPORT_FIRST_S, self.until)
        while self._reported() < seq and time.monotonic() < give_up_at:
            time.sleep(0.005)

    def _publish_artifact(self, server: Server, name: str, snapshot: str) -> None:
        for relative, path in files_of(snapshot):
            if os.path.basename(relative) == DIRECTORY_MARK:
                continue
            inner = relative.partition("/")[2]
            full_name = f"{name}/{inner}" if inner else name
            described = Described(path, full_name, go_on=self._give_way)
            if self.published.get(full_name) != described.file["sha256"]:
                offer = {"name": full_name, "file": described.file}
                publish(server, "/agent/v1/artifacts", offer, described.pieces, self.until)
                self.published[full_name] = described.file["sha256"]


def _pieces(described: list[Described]) -> dict[str, Any]:
    return {sha: piece for one in described for sha, piece in one.pieces.items()}
