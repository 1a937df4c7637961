"""Tables that fit the terminal: the last column gives way first, numbers stand right."""

import re
import shutil
from collections.abc import Sequence

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GAP = "  "
LEAST = (16, 6)  # what is left of a column, before others have to give way too


def width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def visible(text: str) -> int:
    return len(_ESCAPE.sub("", text))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None = None) -> list[str]:
    """Lines of a table. Where they would not fit, columns are cut, the last one first: wide ones before narrow ones."""
    widths = [max(visible(row[place]) for row in [heading, *rows]) for place in range(len(heading))]
    room = (columns or width()) - len(GAP) * (len(heading) - 1)
    for least in LEAST:
        for place in reversed(range(len(widths))):
            over = sum(widths) - room
            widths[place] -= max(0, min(over, widths[place] - least))
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
