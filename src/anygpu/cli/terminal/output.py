"""Print lines, tables, coloured text and JSON."""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from anygpu.installation import with_command_name
from anygpu.printable import printable, printable_json, printable_line


def emit_json(value: Any) -> None:
    print(printable_json(json.dumps(value, indent=2, ensure_ascii=False)), flush=True)


def emit_json_line(value: Any) -> None:
    print(printable_json(json.dumps(value, ensure_ascii=False)), flush=True)


def dump_yaml(value: Any) -> str:
    """Return a YAML document that is safe to print."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if printable(text) == text:
        return text
    escaped: str = yaml.safe_dump(value, sort_keys=False)
    return escaped


def emit(lines: Iterable[str]) -> None:
    """Print lines. On a narrow terminal, long lines are wrapped between words.

    Lines may contain text from jobs, so control characters in them become visible.
    """
    width, colours = table_width(), use_colour()
    for each in lines:
        line = printable(with_command_name(each), colours=colours)
        print(line if width >= NARROW_COLUMNS else _wrap_line(line, width), flush=True)


def _wrap_line(line: str, width: int) -> str:
    if visible_length(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return "\n".join(_wrap([plain_text(line)], width, indent))


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
NARROW_COLUMNS = 60
MIN_WIDTH, NARROW_MIN_WIDTH = 6, 8  # columns of a narrow terminal are not cut as far, but turned into lines
FIRST_CUT_WIDTH = 16  # all columns are cut to this width before one is cut to the minimum
MIN_FIRST_WIDTH = 16  # wider, because the first column identifies the row
UNLIMITED = 1_000_000


def terminal_width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def table_width() -> int:
    """Return the width at which tables are cut; practically unlimited if the output is a pipe or a file."""
    return terminal_width() if sys.stdout.isatty() or os.environ.get("COLUMNS") else UNLIMITED


def plain_text(text: str) -> str:
    """Return the text without colours."""
    return _ESCAPE.sub("", text)


def visible_length(text: str) -> int:
    return len(plain_text(text))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None = None) -> list[str]:
    """Return the lines of a table.

    If the table is too wide, columns are cut, starting with the last. If that is not enough, each row becomes
    lines of the form `HEADING  value`.
    """
    above, blocks = table_blocks(heading, rows, columns=columns)
    between = [] if above else [""]
    return [*above, *(line for block in blocks for line in (*block, *between))]


def table_blocks(
    heading: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None = None
) -> tuple[list[str], list[list[str]]]:
    """Return the heading of a table, and the lines of each row. There is no heading if each row has several lines."""
    width = columns or table_width()
    rows = [[printable_line(text, colours=True) for text in row] for row in rows]
    sizes = [max(visible_length(row[column]) for row in [heading, *rows]) for column in range(len(heading))]
    sizes = _fit_columns(sizes, width)
    if sum(sizes) + len(GAP) * (len(sizes) - 1) > width:
        return [], [_record(heading, row, width) for row in rows]
    return [_line(heading, sizes)], [[_line(row, sizes)] for row in rows]


def _fit_columns(sizes: Sequence[int], width: int) -> list[int]:
    """Return the widths of the columns after cutting them, as far as they may be cut, to fit into `width`."""
    cut, available = list(sizes), width - len(GAP) * (len(sizes) - 1)
    for least in (FIRST_CUT_WIDTH, NARROW_MIN_WIDTH if width < NARROW_COLUMNS else MIN_WIDTH):
        for column in reversed(range(len(cut))):
            over = sum(cut) - available
            cut[column] -= max(0, min(over, cut[column] - (least if column else MIN_FIRST_WIDTH)))
    return cut


def _record(heading: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return one row of a table as several lines of the form `HEADING  value`."""
    pairs = [(name, value) for name, value in zip(heading, row, strict=True) if value]
    return fields(pairs, columns=width)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(_cell(text, size) for text, size in zip(row, widths, strict=True)).rstrip()


def _cell(text: str, size: int) -> str:
    over = visible_length(text) - size
    if over <= 0:
        return text + " " * -over
    return plain_text(text)[: size - 1] + "…"


def fields(pairs: Sequence[tuple[str, str]], *, columns: int | None = None) -> list[str]:
    """Return lines of the form `name  value`, with the values aligned.

    On a narrow terminal, a value that is too long is wrapped and begins on the line after its name.
    """
    longest, width = max((len(name) for name, _ in pairs), default=0), columns or table_width()
    return [line for name, value in pairs for line in _field(name, value, longest, width)]


def _field(name: str, value: str, longest: int, width: int) -> list[str]:
    indent = longest + len(GAP)
    parts = value.splitlines() or [""]
    if width >= NARROW_COLUMNS or all(indent + visible_length(part) <= width for part in parts):
        return [f"{name:<{longest}}{GAP}{parts[0]}", *(" " * indent + part for part in parts[1:])]
    return [*([name] if name else []), *_wrap([plain_text(part) for part in parts], width, GAP)]


def _wrap(parts: Sequence[str], width: int, indent: str) -> list[str]:
    """Wrap texts to `width`, indented. A word that is too long, such as a path, is broken."""
    return [
        line
        for part in parts
        for line in textwrap.wrap(
            part.strip(), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
    ] or [indent]


def wrap(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """Wrap a text to the width at which tables are cut. `hanging` is the indent of all lines but the first."""
    return textwrap.wrap(
        text,
        table_width(),
        initial_indent=indent,
        subsequent_indent=indent if hanging is None else hanging,
        break_on_hyphens=False,
    )
