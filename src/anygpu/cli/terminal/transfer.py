"""A progress line for uploads and downloads, shown on a terminal only."""

import sys
import time

from anygpu.cli.terminal import formatting
from anygpu.cli.terminal.output import terminal_width

DRAW_EVERY_S = 0.1


class TransferLine:
    """A line such as `anygpu: Fetching 12.0 MiB of 340.0 MiB`. Use it in a `with` block."""

    def __init__(self, verb: str, total: int) -> None:
        self._verb, self._total, self._done = verb, total, 0
        self._is_shown = sys.stderr.isatty()
        self._drawn_at = float("-inf")

    def add(self, size: int) -> None:
        self._done += size
        now = time.monotonic()
        if self._is_shown and now - self._drawn_at >= DRAW_EVERY_S:
            self._drawn_at = now
            done, total = formatting.size(min(self._done, self._total)), formatting.size(self._total)
            text = f"anygpu: {self._verb} {done} of {total}"
            sys.stderr.write(f"\r\x1b[K{text[: terminal_width() - 1]}")
            sys.stderr.flush()

    def __enter__(self) -> "TransferLine":
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
