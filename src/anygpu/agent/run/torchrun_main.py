"""Run torchrun, keep the output of its processes apart, and tell a killed process from a failed one.

The agent copies this file to the machine of the job, where the Python of the job runs it:

    python torchrun_main.py --nproc-per-node=4 (more options of torchrun) train.py --lr 1

Each process gets a pipe of its own. The output of the first process of the machine is passed on unchanged, and each
line of the others as one line with the prefix `[rank N] `. So the agent, and people, know which process printed it.
torchrun starts each process with this file too, which puts the pipe in the place of stdout and stderr, and then becomes
the script.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

SAME_TIME_S = 5.0
START_OPTION = "--start-rank"
PIPES_VARIABLE = "ANYGPU_RANK_PIPES"
OWN_REDIRECTION = ("PET_REDIRECTS", "PET_TEE")  # with these, torchrun itself writes the output to files
READ_BYTES = 65536
MAX_LINE_BYTES = 65536
MAX_WAITING_BYTES = 2**20
TICK_S = 0.25
HOLD_S = 1.0  # how long lines of others wait for the end of a line of the first process
IDLE_S = 1.0  # a line that has not ended is passed on after this time
BAR_EVERY_S = 10.0  # how often the progress bar of another process is passed on
DRAIN_S = 2.0
NOT_FOUND = 127


def main() -> int:
    if sys.argv[1:2] == [START_OPTION]:
        return start_rank(sys.argv[2:])
    try:
        torchrun = importlib.import_module("torch.distributed.run")
        errors = importlib.import_module("torch.distributed.elastic.multiprocessing.errors")
    except ImportError as error:
        sys.stderr.write(
            f"torchrun cannot start, because torch is missing: {error}. Add it to `requirements`.\n"
        )
        return 1
    options, command = split_arguments(sys.argv[1:])
    failures = record_failures(getattr(errors, "ProcessFailure", object))
    try:
        run_torchrun(torchrun.main, options, command)
    except errors.ChildFailedError as error:
        sys.stderr.write(f"{errors.ChildFailedError(name_of(command), error.failures)}\n")
        return report_failures([(each.timestamp, each.exitcode) for each in error.failures.values()])
    except Exception:
        # SIGTERM came while torchrun waited for the other processes of this machine to end.
        if not failures:
            raise
        return report_failures(failures)
    return 0


def record_failures(failure_type: Any) -> list[tuple[float, int]]:
    """Return a list that gets the time and the exit code of each process when torchrun finds that it has failed.

    torchrun itself reports them only after all processes of the machine have ended, and never after SIGTERM.
    `failure_type` is torchrun's class of failures. If it has no `__post_init__`, nothing is recorded.
    """
    failures: list[tuple[float, int]] = []
    if not hasattr(failure_type, "__post_init__"):
        return failures
    initialise = failure_type.__post_init__

    def initialise_and_record(failure: Any) -> None:
        initialise(failure)
        failures.append((failure.timestamp, failure.exitcode))

    failure_type.__post_init__ = initialise_and_record
    return failures


def report_failures(failures: list[tuple[float, int]]) -> int:
    """Print how the processes failed, and return the exit code that says it."""
    code = exit_code(failures)
    how = f"was killed by signal {code - 128}" if code > 128 else f"failed with exit code {code}"
    sys.stderr.write(f"a process of torchrun {how}\n")
    return code


def exit_code(failures: list[tuple[float, int]]) -> int:
    """Return the exit code for failed processes, each with its time in seconds and its exit code.

    torchrun itself exits with code 1 whether a process was killed or failed. A negative exit code is the number of a
    signal. When a process has failed, torchrun sends SIGTERM to the others, and SIGKILL after half a minute, so these
    explain nothing. When a process is killed, the others may fail or abort, so SIGKILL comes first.
    """
    first_at = min(at for at, _ in failures)
    causes = [code for at, code in failures if at - first_at < SAME_TIME_S and code != -signal.SIGTERM]
    signals = [-code for code in causes if code < 0]
    if signals:
        return 128 + (signal.SIGKILL if signal.SIGKILL in signals else signals[0])
    return next((code for code in causes if code > 0), 1)


# -- commands -----------------------------------------------------------------------------------------------------


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into the options of torchrun and the command of each process."""
    count = next(
        number for number, each in enumerate(arguments) if not each.startswith("--") or "=" not in each
    )
    options, target = list(arguments[:count]), list(arguments[count:])
    if target[0] == "--no-python":
        return options, target[1:]
    return options, [os.environ.get("PYTHON_EXEC", sys.executable), "-u", *target]


def name_of(command: Sequence[str]) -> str:
    """Return the name of a command for messages: the script or module of Python, else the program."""
    is_python = command[1:2] == ["-u"]
    return next((each for each in command if is_python and each not in (command[0], "-u", "-m")), command[0])


def run_torchrun(
    torchrun: Callable[[list[str]], object], options: Sequence[str], command: Sequence[str]
) -> None:
    output = open_pipes(options)
    if output is None:
        torchrun([*options, "--no-python", *command])
        return
    with output:
        os.environ[PIPES_VARIABLE] = output.directory
        start = [sys.executable, "-I", "-S", os.path.abspath(__file__), START_OPTION]
        torchrun([*options, "--no-python", *start, *command])


def open_pipes(options: Sequence[str]) -> RankOutput | None:
    """Return the pipes of the processes; None if all processes print to the same pipe."""
    values = dict(each[2:].split("=", 1) for each in options)
    processes = int(values["nproc-per-node"])
    if processes == 1 or any(os.environ.get(name, "0") != "0" for name in OWN_REDIRECTION):
        return None
    try:
        return RankOutput(int(values["node-rank"]) * processes, processes)
    except OSError as error:
        sys.stderr.write(f"the output of the ranks of this machine is not kept apart: {error}\n")
        return None


def start_rank(command: Sequence[str]) -> int:
    """Become the command of a process, with the pipe of the process as stdout and stderr."""
    directory, process = os.environ.pop(PIPES_VARIABLE), os.environ["LOCAL_RANK"]
    try:
        pipe = _take_pipe(directory, process)
    except OSError as error:
        sys.stderr.write(f"the output of this process is not kept apart from that of others: {error}\n")
    else:
        os.dup2(pipe, 1)
        os.dup2(pipe, 2)
        os.close(pipe)
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and the command would inherit that
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        sys.stderr.write(f"the program {command[0]!r} cannot be started: {error.strerror}\n")
    return NOT_FOUND


def _take_pipe(directory: str, process: str) -> int:
    """Open the pipe of a process, and remove its file: nothing is left of it if all processes are killed."""
    path = os.path.join(directory, process)
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)  # fails if nobody reads the pipe any more
    os.set_blocking(pipe, True)
    os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(directory)  # the last process can remove it
    return pipe


# -- output -------------------------------------------------------------------------------------------------------


class RankOutput:
    """A pipe for each process of this machine, and a thread that passes on what they print.

    The pipes are files, because torchrun closes all other descriptors in its processes.
    """

    def __init__(self, first_rank: int, processes: int) -> None:
        self.directory = tempfile.mkdtemp(prefix="anygpu-ranks-")
        self._merger = LineMerger(_write_all, first_rank, processes)
        self._selector = selectors.DefaultSelector()
        self._open: list[int] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rank output", daemon=True)
        for process in range(processes):
            self._open_pipe(process)

    def __enter__(self) -> RankOutput:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Pass on what is left of the output of ended processes."""
        self._stopped.set()
        self._thread.join()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _open_pipe(self, process: int) -> None:
        path = os.path.join(self.directory, str(process))
        os.mkfifo(path, 0o600)
        reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # With a writer of our own, a pipe does not end before its process starts.
        self._open += [reading, os.open(path, os.O_WRONLY)]
        self._selector.register(reading, selectors.EVENT_READ, process)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._read(TICK_S)
            until = time.monotonic() + DRAIN_S  # a process that survived may go on printing
            while self._read(0) and time.monotonic() < until:
                pass
            self._merger.close()
        except OSError:
            pass  # nobody reads our output any more
        finally:
            for pipe in self._open:
                os.close(pipe)  # a process that prints now fails, as with any closed pipe

    def _read(self, wait_s: float) -> bool:
        """Read what the processes have printed, and return whether there was something."""
        ready = self._selector.select(wait_s)
        for key, _ in ready:
            self._merger.feed(key.data, os.read(key.fd, READ_BYTES), time.monotonic())
        self._merger.tick(time.monotonic())
        return bool(ready)


class LineMerger:
    """Merges the output of the processes of a machine.

    The bytes of the first process are passed on unchanged and at once. Lines of the others get a prefix, and are put
    between two lines of the first one. If that is in the middle of a line for long, they end its line.
    """

    def __init__(self, write: Callable[[bytes], None], first_rank: int, processes: int) -> None:
        self._write = write
        self._others = [RankLines(first_rank + process) for process in range(1, processes)]
        self._is_in_line = False
        self._waiting: list[bytes] = []
        self._waiting_since = 0.0

    def feed(self, process: int, data: bytes, now: float) -> None:
        if process:
            self._add(self._others[process - 1].feed(data, now), now)
        else:
            self._pass_on(data)

    def tick(self, now: float) -> None:
        """Pass on what has waited for long enough."""
        for other in self._others:
            self._add(other.tick(now), now)
        if self._waiting and now - self._waiting_since >= HOLD_S:
            self._write_waiting()

    def close(self) -> None:
        for other in self._others:
            self._add(other.close(), 0.0)
        self._write_waiting()

    def _add(self, lines: list[bytes], now: float) -> None:
        if not lines:
            return
        if not self._waiting:
            self._waiting_since = now
        self._waiting += lines
        if not self._is_in_line or sum(map(len, self._waiting)) > MAX_WAITING_BYTES:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        self._write((b"\n" if self._is_in_line else b"") + b"".join(self._waiting))
        self._waiting.clear()
        self._is_in_line = False

    def _pass_on(self, data: bytes) -> None:
        at = _end_of_line(data) if self._waiting else None
        if at is not None:
            self._put(data[:at])
            self._write_waiting()
            data = data[at:]
        self._put(data)

    def _put(self, data: bytes) -> None:
        if data:
            self._write(data)
            self._is_in_line = not data.endswith(b"\n")


class RankLines:
    """Turns the output of one process into whole lines with the number of its rank.

    A progress bar rewrites its line: only its last state is shown, and some states in between.
    """

    def __init__(self, rank: int) -> None:
        self._prefix = b"[rank %d] " % rank
        self._partial = b""
        self._printed_at = self._bar_shown_at = float("-inf")
        self._is_bar = False
        self._is_shown = False  # the beginning of the line, or a state of its progress bar, was passed on

    def feed(self, data: bytes, now: float) -> list[bytes]:
        *ended, partial = (self._partial + data).split(b"\n")
        self._printed_at = now
        lines = []
        for line in ended:
            shown = _last_state(line)
            lines += [] if self._is_shown and not shown else [self._line(shown)]
            self._is_shown = self._is_bar = False
        self._is_bar |= b"\r" in partial
        self._partial = partial[partial.rstrip(b"\r").rfind(b"\r") + 1 :]
        return lines + (self.close() if len(self._partial) > MAX_LINE_BYTES else [])

    def tick(self, now: float) -> list[bytes]:
        """Return the line that has not ended, if it waits for long."""
        is_due = now - self._printed_at >= IDLE_S or self._is_bar
        if not self._partial or not is_due or (self._is_bar and now - self._bar_shown_at < BAR_EVERY_S):
            return []
        self._bar_shown_at = now
        return self.close()

    def close(self) -> list[bytes]:
        """Return the line that has not ended. What follows is another line."""
        shown, self._partial = _last_state(self._partial), b""
        self._is_shown = self._is_shown or bool(shown)
        return [self._line(shown)] if shown else []

    def _line(self, text: bytes) -> bytes:
        return self._prefix + text + b"\n"


def _last_state(line: bytes) -> bytes:
    """Return what a terminal shows of a line in which carriage returns begin it again."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _end_of_line(data: bytes) -> int | None:
    """Return where the current line ends in `data`: behind a line feed, or before the carriage return of a bar."""
    feed, back = data.find(b"\n"), data.find(b"\r")
    if 0 <= back < (feed if feed >= 0 else len(data) - 1) and back != feed - 1:
        return back
    return feed + 1 if feed >= 0 else None


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main())
