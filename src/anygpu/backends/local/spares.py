"""One agent started ahead, so that a job's first line does not wait for an interpreter."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anygpu.agent.host.processes import PLACEHOLDER_NAME

Started = Callable[[socket.socket], "subprocess.Popen[bytes]"]


class Spare:
    """Waits for its attempt at the other end of a socket; leaves when that is closed."""

    def __init__(self, start: Started) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self.process = start(theirs)

    @property
    def waits(self) -> bool:
        return self.process.poll() is None

    def hand_over(self, name: str, directory: Path, env: Mapping[str, str], fds: Sequence[int]) -> bool:
        """False when it died meanwhile. The first descriptor becomes its output; the rest are its locks."""
        order = {"name": name, "directory": str(directory), "env": dict(env)}
        with self._ours:
            try:
                socket.send_fds(self._ours, [json.dumps(order).encode()], [*fds])
            except OSError:
                return False
            return self.waits

    def dismiss(self) -> None:
        self._ours.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)


class Spares:
    """At most one at a time: it costs some ten megabytes while it waits."""

    def __init__(self, start: Started) -> None:
        self._start = start
        self._spare: Spare | None = None

    def prepare(self) -> None:
        spare = self.take()
        if spare is not None:
            self._spare = spare
            return
        with contextlib.suppress(OSError):
            self._spare = Spare(self._start)

    def take(self) -> Spare | None:
        spare, self._spare = self._spare, None
        if spare is not None and not spare.waits:
            spare.dismiss()
            return None
        return spare

    def close(self) -> None:
        if self._spare is not None:
            self._spare.dismiss()
            self._spare = None


def placeholder() -> dict[str, str]:
    return {"ANYGPU_NAME": PLACEHOLDER_NAME}
