"""Print lines, tables, coloured text and JSON."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO


def emit_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False), flush=True)


def emit_json_line(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def emit(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


COLOUR_CODES = {
    "red": 31,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "magenta": 35,
    "cyan": 36,
    "dim": 2,
    "bold": 1,
}
STATUS_COLOURS = {
    "completed": "green",
    "running": "cyan",
    "queued": "yellow",
    "failed": "red",
    "cancelled": "magenta",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


def use_colour(stream: TextIO | None = None) -> bool:
    """Return whether to print colours.

    NO_COLOR turns colours off and FORCE_COLOR turns them on. Otherwise colours are used on a terminal only.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, on: bool) -> str:
    return f"\x1b[{COLOUR_CODES[colour]}m{text}\x1b[0m" if on and text and colour else text


def paint_status(word: str, *, on: bool) -> str:
    return paint(word, STATUS_COLOURS.get(word.strip(), "dim"), on=on)


_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GAP = "  "
MIN_WIDTHS = (16, 6)  # columns are cut to the first width, then, if necessary, to the second
MIN_FIRST_WIDTH = 16  # wider, because the first column identifies the row
UNLIMITED = 1_000_000


def terminal_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def table_width() -> int:
    """Return the width at which tables are cut; practically unlimited if the output is a pipe or a file."""
    return terminal_width() if sys.stdout.isatty() or os.environ.get("COLUMNS") else UNLIMITED


def visible_length(text: str) -> int:
    return len(_ESCAPE.sub("", text))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None = None) -> list[str]:
    """Return the lines of a table. If the table is too wide, columns are cut, starting with the last."""
    widths = [max(visible_length(row[column]) for row in [heading, *rows]) for column in range(len(heading))]
    available = (columns or table_width()) - len(GAP) * (len(heading) - 1)
    for least in MIN_WIDTHS:
        for column in reversed(range(len(widths))):
            over = sum(widths) - available
            widths[column] -= max(0, min(over, widths[column] - (least if column else MIN_FIRST_WIDTH)))
    return [_line(row, widths) for row in [heading, *rows]]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(_cell(text, size) for text, size in zip(row, widths, strict=True)).rstrip()


def _cell(text: str, size: int) -> str:
    over = visible_length(text) - size
    if over <= 0:
        return text + " " * -over
    plain = _ESCAPE.sub("", text)
    return plain[: size - 1] + "…"


def fields(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines of the form `name  value`, with the values aligned."""
    longest = max((len(name) for name, _ in pairs), default=0)
    under = "\n" + " " * (longest + len(GAP))
    return [f"{name:<{longest}}{GAP}{under.join(value.splitlines())}" for name, value in pairs]
