"""Tables that fit the terminal: the last column gives way first. In a pipe or a file nothing is cut."""

import os
import re
import shutil
import sys
from collections.abc import Sequence

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GAP = "  "
LEAST = (16, 6)  # what is left of a column, before others have to give way too
FIRST = 16  # the first says which line it is: an id or a name cut to six characters names nothing
NO_END = 1_000_000


def width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def room() -> int:
    """For a table: a program that reads it, or `grep`, has no width."""
    return width() if sys.stdout.isatty() or os.environ.get("COLUMNS") else NO_END


def visible(text: str) -> int:
    return len(_ESCAPE.sub("", text))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None = None) -> list[str]:
    """Lines of a table. Where they would not fit, columns are cut, the last one first: wide ones before narrow ones."""
    widths = [max(visible(row[place]) for row in [heading, *rows]) for place in range(len(heading))]
    fits = (columns or room()) - len(GAP) * (len(heading) - 1)
    for least in LEAST:
        for place in reversed(range(len(widths))):
            over = sum(widths) - fits
            widths[place] -= max(0, min(over, widths[place] - (least if place else FIRST)))
    return [_line(row, widths) for row in [heading, *rows]]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(_cell(text, size) for text, size in zip(row, widths, strict=True)).rstrip()


def _cell(text: str, size: int) -> str:
    over = visible(text) - size
    if over <= 0:
        return text + " " * -over
    plain = _ESCAPE.sub("", text)
    return plain[: size - 1] + "…"


def fields(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """`name   value` lines with the values under each other."""
    longest = max((len(name) for name, _ in pairs), default=0)
    under = "\n" + " " * (longest + len(GAP))
    return [f"{name:<{longest}}{GAP}{under.join(value.splitlines())}" for name, value in pairs]
