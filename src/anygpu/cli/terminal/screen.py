"""The output of a followed job. On a terminal, a status line is shown below it."""

import contextlib
import sys
import time
from collections.abc import Callable

from anygpu.cli.terminal import output

DRAW_EVERY_S = 0.1


class Screen:
    """Output to pipes and files: log bytes go to standard output, messages to standard error."""

    def log(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def message(self, text: str) -> None:
        print(f"anygpu: {text}", file=sys.stderr, flush=True)

    def refresh(self) -> None:
        """Redraw the status line."""

    def close(self) -> None:
        """Remove the status line."""


class LiveScreen(Screen):
    """Output to a terminal.

    Complete lines scroll; the incomplete line and the status line stay at the bottom.
    """

    def __init__(self, status: Callable[[int], str]) -> None:
        self._status = status
        self._unfinished = b""
        self._drawn = 0
        self._drawn_at = 0.0

    def log(self, data: bytes) -> None:
        *whole, self._unfinished = (self._unfinished + data).split(b"\n")
        if whole:
            self._erase()
            Screen.log(self, b"".join(line + b"\n" for line in whole))
        self.refresh()

    def message(self, text: str) -> None:
        self._erase()
        super().message(text)
        self.refresh()

    def refresh(self) -> None:
        now = time.monotonic()
        if self._drawn and now - self._drawn_at < DRAW_EVERY_S:
            return
        self._erase()
        self._draw()
        self._drawn_at = now

    def close(self) -> None:
        self._erase()
        if self._unfinished:
            with contextlib.suppress(OSError):
                Screen.log(self, self._unfinished + b"\n")
            self._unfinished = b""

    def _draw(self) -> None:
        width = output.terminal_width() - 1
        lines = [self._status(width)]
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


def visible_text(unfinished: bytes) -> str:
    """Return the visible part of an incomplete line: the text after its last carriage return."""
    shown = unfinished.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
    return "".join(character for character in shown if character.isprintable())


def screen_for(status: Callable[[int], str], *, quiet: bool = False) -> Screen:
    live = sys.stdout.isatty() and sys.stderr.isatty() and not quiet
    return LiveScreen(status) if live else Screen()
