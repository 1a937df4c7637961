"""Start the processes of a training on several GPUs of this machine, and end all of them if one fails.

The processes also end if the process that started them is killed: they read a pipe whose other end it holds.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

POLL_S = 0.05
GRACE_S = 10.0  # for the other processes to end by themselves after one has failed
PARENT_FD = "ANYGPU_TRAINER_PARENT_FD"
SHOWN_LINES = 20  # of the error output of a process that is not rank 0


class ProcessGroup:
    """The processes of a training. Standard output and error are those of rank 0."""

    def __init__(self, arguments: Sequence[str], size: int) -> None:
        self._errors: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(1, size)]  # noqa: SIM115  open until the end
        reading, self._held = os.pipe()
        shared = {**_environment(size), PARENT_FD: str(reading)}
        self._processes = [self._start(arguments, rank, shared, reading) for rank in range(size)]
        os.close(reading)

    def run(self) -> int:
        """Wait until all processes have ended, and return the exit code of the training."""
        previous = {
            number: signal.signal(number, self._forward) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            failed = self._wait()
        finally:
            self._end_all()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return 0 if failed is None else self._report(failed)

    def _start(
        self, arguments: Sequence[str], rank: int, shared: dict[str, str], reading: int
    ) -> subprocess.Popen[bytes]:
        output: dict[str, Any] = (
            {"stdout": subprocess.DEVNULL, "stderr": self._errors[rank - 1]} if rank else {}
        )
        return subprocess.Popen(
            [sys.executable, "-m", "anygpu.trainers", *arguments],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            pass_fds=(reading,),
            **output,
        )

    def _wait(self) -> int | None:
        """Return the rank that failed first; None if all succeeded."""
        while True:
            codes = [each.poll() for each in self._processes]
            failed = rank_at_fault(codes)
            if failed is not None:
                self._wait_for_others()
                return failed
            if all(code == 0 for code in codes):
                return None
            time.sleep(POLL_S)

    def _wait_for_others(self) -> None:
        end = time.monotonic() + GRACE_S
        while any(each.poll() is None for each in self._processes) and time.monotonic() < end:
            time.sleep(POLL_S)

    def _end_all(self) -> None:
        for each in self._processes:
            if each.poll() is None:
                each.kill()
        for each in self._processes:
            each.wait()

    def _report(self, failed: int) -> int:
        """Print the error of a process that is not rank 0, and return the exit code.

        If rank 0 has found an error of the user (exit code 2), its own message is already printed.
        """
        first = self._processes[0].returncode
        if failed and first != 2:
            file = self._errors[failed - 1]
            file.seek(0)
            lines = file.read().decode("utf-8", "replace").splitlines()[-SHOWN_LINES:]
            sys.stderr.write("".join(f"rank {failed}: {line}\n" for line in lines))
            sys.stderr.write(f"rank {failed} failed ({_describe(self._processes[failed].returncode)})\n")
        code = first if first == 2 else self._processes[failed].returncode
        return 128 - code if code < 0 else code

    def _forward(self, number: int, _: Any) -> None:
        for each in self._processes:
            if each.poll() is None:
                each.send_signal(number)


def rank_at_fault(codes: Sequence[int | None]) -> int | None:
    """Return the rank whose failure ended the others; None if no process has failed.

    Others that lose their connection to it fail with exit code 1, perhaps before its end is noticed.
    """
    failures = [(_severity(code), rank) for rank, code in enumerate(codes) if code]
    return min(failures)[1] if failures else None


def _severity(code: int) -> int:
    """Return the order of causes: killed by a signal, refused with a reason (exit code 2), failed otherwise."""
    return 0 if code < 0 else 1 if code == 2 else 2


def end_with_parent() -> None:
    """End this process when the process that started it ends. Does nothing if it is not one of several."""
    fd = os.environ.pop(PARENT_FD, "")
    if fd:
        threading.Thread(target=_wait_for_parent, args=(int(fd),), daemon=True).start()


def _wait_for_parent(fd: int) -> None:
    while os.read(fd, 1):
        pass
    os._exit(1)


def _environment(size: int) -> dict[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    threads = max(1, (os.cpu_count() or 1) // size)
    return {
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
    }


def _describe(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
