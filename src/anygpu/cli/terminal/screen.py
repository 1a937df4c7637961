"""The output of a followed job. On a terminal, a status line is shown below it."""

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable

from anygpu.cli.terminal import output
from anygpu.cli.terminal.job_output import RESET, OutputFilter, UnchangedOutput
from anygpu.installation import with_command_name
from anygpu.printable import printable, printable_line

_SEQUENCE = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]")
DRAW_EVERY_S = 0.1
TICK_S = 1.0


def output_filter(*, raw: bool) -> OutputFilter | UnchangedOutput:
    """Return the filter for job output that goes to standard output. With `raw`, nothing is filtered."""
    if raw:
        return UnchangedOutput()
    return OutputFilter(colours=output.use_colour(), terminal=sys.stdout.isatty())


def write_output(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


class Screen:
    """Prints the output of a job to a pipe or file: log bytes to standard output, messages to standard error."""

    def __init__(self, *, raw: bool = False) -> None:
        self._filter = output_filter(raw=raw)

    def log(self, data: bytes) -> None:
        write_output(self._filter.feed(data))

    def message(self, text: str) -> None:
        print(f"anygpu: {printable(with_command_name(text))}", file=sys.stderr, flush=True)

    def refresh(self) -> None:
        """Redraw the status line."""

    def close(self) -> None:
        """Print the rest of the output."""
        with contextlib.suppress(OSError):
            write_output(self._filter.close())


class LiveScreen(Screen):
    """Prints the output of a job to a terminal.

    Complete lines scroll; the incomplete line and the status line stay at the bottom. A thread redraws the status line
    every second, so that the time of a job that waits or prints nothing goes on.
    """

    def __init__(self, status: Callable[[int], str], *, raw: bool = False) -> None:
        super().__init__(raw=raw)
        self._status = status
        self._unfinished = b""
        self._drawn = 0
        self._drawn_at = 0.0
        self._lock = threading.RLock()
        self._ticker: StatusTicker | None = None

    def log(self, data: bytes) -> None:
        with self._lock:
            *whole, self._unfinished = (self._unfinished + self._filter.feed(data)).split(b"\n")
            if whole:
                self._erase()
                write_output(b"".join(line + b"\n" for line in whole))
            self.refresh()

    def message(self, text: str) -> None:
        with self._lock:
            self._erase()
            super().message(text)
            self.refresh()

    def refresh(self) -> None:
        with self._lock:
            self._ticker = self._ticker or StatusTicker(self._redraw)
            if not self._drawn or time.monotonic() - self._drawn_at >= DRAW_EVERY_S:
                self._redraw()

    def close(self) -> None:
        """Remove the status line, and print the incomplete line."""
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        with self._lock:
            self._erase()
            rest, self._unfinished = self._unfinished + self._filter.close(), b""
            if rest:
                with contextlib.suppress(OSError):
                    write_output(rest + b"\n" if rest.strip(RESET.encode()) else rest)

    def _redraw(self) -> None:
        with self._lock:
            self._erase()
            self._draw()
            self._drawn_at = time.monotonic()

    def _draw(self) -> None:
        width = output.terminal_width() - 1
        lines = [printable_line(self._status(width))]
        if self._unfinished:
            lines.insert(0, visible_text(self._unfinished)[:width])
        sys.stderr.write("\n".join(lines))
        sys.stderr.flush()
        self._drawn = len(lines)

    def _erase(self) -> None:
        if self._drawn:
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            sys.stderr.write(f"\r{up}\x1b[J")
            sys.stderr.flush()
            self._drawn = 0


class StatusTicker:
    """A thread that calls `redraw` every second until it is stopped."""

    def __init__(self, redraw: Callable[[], None]) -> None:
        self._redraw = redraw
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="status line", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(TICK_S):
            self._redraw()


def visible_text(unfinished: bytes) -> str:
    """Return the visible part of an incomplete line: the text after its last carriage return, without colours."""
    shown = unfinished.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
    shown = _SEQUENCE.sub("", shown)
    return "".join(character for character in shown if character.isprintable())


def screen_for(status: Callable[[int], str], *, raw: bool = False) -> Screen:
    live = sys.stdout.isatty() and sys.stderr.isatty()
    return LiveScreen(status, raw=raw) if live else Screen(raw=raw)
