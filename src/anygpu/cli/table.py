"""Tables that fit the terminal: the last column gives way first, numbers stand right."""

import re
import shutil
from collections.abc import Sequence

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GAP = "  "


def width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def visible(text: str) -> int:
    return len(_ESCAPE.sub("", text))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, columns: int | None = None) -> list[str]:
    """Lines of a table. Columns that would not fit are cut, the last one first."""
    widths = [max(visible(row[place]) for row in [heading, *rows]) for place in range(len(heading))]
    room = (columns or width()) - len(GAP) * (len(heading) - 1)
    for place in reversed(range(len(widths))):
        over = sum(widths) - room
        if over > 0:
            widths[place] = max(widths[place] - over, min(widths[place], 6))
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
