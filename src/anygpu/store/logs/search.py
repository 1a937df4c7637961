"""Search a log in portions, forwards or backwards.

A regular expression comes from a user, and with Python's `re` some expressions take hours. RE2 needs time
proportional to the text, whatever the expression is.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anygpu.errors import InvalidSpec, Problem
from anygpu.store.logs.index import LineMark, LogSnapshot, total_lines
from anygpu.store.logs.page import LogLine, shown_line
from anygpu.store.logs.reader import LineReader, StoredLine, position_after_gap
from anygpu.store.logs.text import searchable

PORTION_BYTES = 2 * 2**20  # searched in one call
MAX_PATTERN_MEMORY = 8 * 2**20

_LINE_END = re.compile(rb"\n")


@dataclass(frozen=True, slots=True)
class LogPattern:
    """Plain text or a regular expression to search for."""

    text: str
    is_regex: bool = False
    case_sensitive: bool = False
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", _compile(self))

    def matching_lines(self, text: bytes) -> Iterator[int]:
        """Yield the indices of the matching lines of a text. The first line has the index 0."""
        index = position = 0
        while (match := self._compiled.search(text, position)) is not None:
            index += text.count(b"\n", position, match.start())
            yield index
            end = text.find(b"\n", match.start())
            if end < 0:
                return
            index, position = index + 1, end + 1


def _compile(pattern: LogPattern) -> Any:
    import re2  # only a search needs it

    options = re2.Options()
    options.case_sensitive = pattern.case_sensitive
    options.never_nl = True  # a match is in one line
    options.log_errors = False
    options.max_mem = MAX_PATTERN_MEMORY
    try:
        return re2.compile(f"(?m){pattern.text}" if pattern.is_regex else re2.escape(pattern.text), options)
    except re2.error as error:
        cause = error.args[0].decode("utf-8", "replace") if error.args else "it cannot be compiled"
        hint = "Use RE2 syntax, which has no lookaround and no backreferences, or search for plain text."
        problem = Problem("q", pattern.text, f"is not a valid regular expression: {cause}", hint, "query")
        raise InvalidSpec([problem]) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPortion:
    """The matching lines of a part of a log, in the direction of the search."""

    lines: Sequence[LogLine] = ()  # the first ones
    count: int = 0  # of all
    next: int | None = None  # the next `after` or `before`; None if everything was searched


class _Block(NamedTuple):
    """Consecutive complete lines: the number and the offset of the first, and their bytes."""

    number: int
    offset: int
    lines: Sequence[StoredLine]
    data: bytes
    end: int  # offset after the lines

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.number + self.data.count(b"\n") - self.data.endswith(b"\n")


def search_after(log: LogSnapshot, pattern: LogPattern, after: int, limit: int) -> SearchPortion:
    """Search a portion of the lines after line `after`. Return the first `limit` matching lines."""
    first, last = after + 1, total_lines(log.count)
    if first > last:
        return SearchPortion()
    mark = log.marks(first, first)[0]
    block = _read_block(log, mark.line, mark.offset, log.count.size)
    while block is not None and block.last < first:
        block = _read_block(log, block.last + 1, block.end, log.count.size)
    if block is None:
        return SearchPortion()
    hits = [each for each in _find(pattern, block) if first <= each <= last]
    lines = _shown_lines(block, hits[:limit])
    return SearchPortion(lines=lines, count=len(hits), next=block.last if block.last < last else None)


def search_before(log: LogSnapshot, pattern: LogPattern, before: int, limit: int) -> SearchPortion:
    """Search a portion of the lines before line `before`. Return the last `limit` matching lines, the last first."""
    last = min(before - 1, total_lines(log.count))
    if last < 1:
        return SearchPortion()
    near, after = [*log.marks(last, last), LineMark(last + 1, log.count.size, 0)][:2]
    start = log.mark_before(max(0, near.offset - PORTION_BYTES)) or LineMark(1, 0, 0)
    found: list[tuple[_Block, list[int]]] = []
    block = _read_block(log, start.line, start.offset, after.offset)
    while block is not None and block.number <= last:
        found.append((block, [each for each in _find(pattern, block) if each <= last]))
        block = _read_block(log, block.last + 1, block.end, after.offset)
    lines: list[LogLine] = []
    for each, hits in reversed(found):
        lines += reversed(_shown_lines(each, hits[max(0, len(hits) - limit + len(lines)) :]))
    count = sum(len(hits) for _, hits in found)
    return SearchPortion(lines=lines, count=count, next=start.line if start.line > 1 else None)


def _read_block(log: LogSnapshot, number: int, offset: int, stop: int) -> _Block | None:
    """Read complete lines that start before offset `stop`: about a portion, or one line that is longer.

    Return None if there are none.
    """
    start, data = log.read(offset, max(0, min(PORTION_BYTES, stop - offset)))
    if data and start > offset:
        number, offset = position_after_gap(log, offset)
        start, data = log.read(offset, max(0, min(PORTION_BYTES, stop - offset)))
    if not data:
        return None
    is_end = offset + len(data) >= log.count.size
    size = len(data) if is_end else data.rfind(b"\n") + 1
    if size:
        return _Block(number, offset, (), data[:size], offset + size)
    line = next(LineReader(log, LineMark(number, offset, 0)).lines())
    return _Block(number, offset, (line,), line.data, line.end)


def _find(pattern: LogPattern, block: _Block) -> list[int]:
    """Return the numbers of the matching lines."""
    text = searchable(block.data)
    hits = [block.number + index for index in pattern.matching_lines(text)]
    while hits and hits[-1] > block.last:  # an expression can match the empty text after the last line
        hits.pop()
    return hits


def _shown_lines(block: _Block, numbers: Sequence[int]) -> list[LogLine]:
    if block.lines or not numbers:
        return [shown_line(line) for line in block.lines if line.number in numbers]
    ends = [match.start() for match in _LINE_END.finditer(block.data)]
    shown = []
    for index in (number - block.number for number in numbers):
        start = ends[index - 1] + 1 if index else 0
        end = ends[index] if index < len(ends) else len(block.data)
        offset = block.offset + start
        line = StoredLine(block.number + index, offset, block.data[start:end], offset, block.offset + end)
        shown.append(shown_line(line))
    return shown
