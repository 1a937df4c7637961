"""On a terminal: the status line, and what Ctrl-C asks."""

import contextlib
import os
import pty
import select
import signal
import time
from typing import Any

import pytest

ASKED = "Detach (d) and let the job run, or cancel it (c)?"
COUNTING = (
    "import sys, time",
    "for n in range(1, 2002):",
    "    print(f'Epoch {n}/2001 loss={1 / n:.4f}', flush=True)",
    "    time.sleep(0.1)",
)


def start(shell: Any, *words: str) -> tuple[int, int]:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite in the background has it ignored
        os.chdir(shell.directory)
        os.execve(
            shell.command, [shell.command, *words], {**shell.environ, "TERM": "xterm", "COLUMNS": "100"}
        )
    return pid, terminal


def shown_until(terminal: int, wanted: str, timeout_s: float = 60) -> str:
    """What the terminal shows until some text appears."""
    seen, until = "", time.monotonic() + timeout_s
    while wanted not in seen:
        assert time.monotonic() < until, f"{wanted!r} did not appear in:\n{seen}"
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                break
    assert wanted in seen, f"{wanted!r} did not appear in:\n{seen}"
    return seen


def exit_code(pid: int, terminal: int, timeout_s: float = 60) -> int:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                os.read(terminal, 65536)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            os.close(terminal)
            return os.waitstatus_to_exitcode(status)
    raise AssertionError("the command did not end")


@pytest.fixture
def long_run(anygpu: Any) -> Any:
    anygpu.write("t.py", *COUNTING)
    name = f"tty-{time.monotonic_ns()}"
    pid, terminal = start(anygpu, "run", "--name", name, "t.py")
    shown_until(terminal, "Epoch 2/2001")
    yield anygpu, name, pid, terminal
    anygpu("cancel", "--wait", name, code=None)


def test_a_status_line_with_bar_and_metrics_stays_below(long_run: Any) -> None:
    _, _, pid, terminal = long_run
    seen = shown_until(terminal, "▏ ")
    seen += shown_until(terminal, "loss=")
    assert "\x1b[J" in seen
    os.write(terminal, b"\x03")
    shown_until(terminal, ASKED)
    os.write(terminal, b"d")
    assert exit_code(pid, terminal) == 130


def test_ctrl_c_then_d_detaches(long_run: Any) -> None:
    anygpu, name, pid, terminal = long_run
    os.write(terminal, b"\x03")
    shown_until(terminal, ASKED)
    os.write(terminal, b"d")
    shown_until(terminal, "the job keeps running")
    assert exit_code(pid, terminal) == 130
    assert anygpu.json("show", name)["status"] == "running"


def test_ctrl_c_then_c_cancels_and_waits_for_the_end(long_run: Any) -> None:
    anygpu, name, pid, terminal = long_run
    os.write(terminal, b"\x03")
    shown_until(terminal, ASKED)
    os.write(terminal, b"c")
    shown_until(terminal, "Cancelled")
    assert exit_code(pid, terminal) == 130
    assert anygpu.json("show", name)["status"] == "cancelled"


def test_a_second_ctrl_c_detaches(long_run: Any) -> None:
    anygpu, name, pid, terminal = long_run
    os.write(terminal, b"\x03")
    shown_until(terminal, ASKED)
    os.write(terminal, b"\x03")
    shown_until(terminal, "the job keeps running")
    assert exit_code(pid, terminal) == 130
    assert anygpu.json("show", name)["status"] == "running"


def test_watch_draws_a_chart_and_leaves_at_ctrl_c(long_run: Any) -> None:
    anygpu, name, pid, terminal = long_run
    watching, screen = start(anygpu, "watch", name)
    seen = shown_until(screen, "┤")
    assert name in seen
    os.write(screen, b"\x03")
    assert exit_code(watching, screen) == 130
    os.write(terminal, b"\x03")
    shown_until(terminal, ASKED)
    os.write(terminal, b"\x03")
    assert exit_code(pid, terminal) == 130


def test_a_run_that_must_wait_says_for_what_and_then_starts(anygpu: Any) -> None:
    busy, name = f"busy-{time.monotonic_ns()}", f"next-{time.monotonic_ns()}"
    anygpu("run", "-d", "--name", busy, "--cpus", "8", "--", "sleep", "600")
    pid, terminal = start(anygpu, "run", "--name", name, "--cpus", "8", "--", "echo", "it is my turn")
    try:
        seen = shown_until(terminal, "the job needs 8")
        assert "Waiting: " in seen
        shown_until(terminal, "waiting 2")  # the time goes on although nothing else is printed
        assert "it is my turn" not in seen
    finally:
        anygpu("cancel", "--wait", busy)
    shown_until(terminal, "it is my turn")
    assert exit_code(pid, terminal) == 0
