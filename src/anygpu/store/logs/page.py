"""A page of the lines of a log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from anygpu.store.logs.index import LineMark, LogSnapshot, total_lines
from anygpu.store.logs.reader import LineReader, StoredLine
from anygpu.store.logs.text import shown_text

MAX_READ_BYTES = 4 * 2**20  # per page
MAX_PAGE_BYTES = 2**20  # of text


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log."""

    number: int  # the first line is 1
    offset: int
    text: str
    rest: int | None = None  # offset where the text was cut, because it is too long
    at_ms: int | None = None  # when the server got it, to within 10 s


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePage:
    """Consecutive lines of a log, without lines that the quota dropped."""

    lines: Sequence[LogLine] = ()
    total_lines: int = 0
    total_bytes: int = 0
    unfinished_from: int = 0  # where an unfinished last line starts; `total_bytes` if there is none


def read_page(log: LogSnapshot, first: int, count: int) -> LinePage:
    """Read `count` lines from line `first`, or fewer if they are long. A negative `first` counts from the end.

    If the quota dropped lines, the page continues with the next stored line.
    """
    total = total_lines(log.count)
    first = max(1, total + 1 + first) if first < 0 else max(1, first)
    lines = tuple(islice(_read_lines(log, first, count), count)) if first <= total else ()
    return LinePage(
        lines=lines, total_lines=total, total_bytes=log.count.size, unfinished_from=log.count.line_start
    )


def _read_lines(log: LogSnapshot, first: int, count: int) -> Iterator[LogLine]:
    marks, last = log.marks(first, first + count), first + count
    reader = LineReader(log, marks[0])
    page_bytes = 0
    for line in reader.lines():
        if line.number < first:
            continue
        if line.number > last:  # after dropped lines
            marks, last = log.marks(line.number, line.number + count), line.number + count
        while len(marks) > 1 and marks[1].line <= line.number:
            del marks[0]
        yield (shown := shown_line(line, marks[0]))
        page_bytes += len(shown.text)
        if reader.bytes_read >= MAX_READ_BYTES or page_bytes >= MAX_PAGE_BYTES:
            return


def shown_line(line: StoredLine, mark: LineMark | None = None) -> LogLine:
    text, cut = shown_text(line.data)
    rest = None if cut is None else line.data_offset + cut
    at_ms = mark.at_ms if mark and mark.line <= line.number and mark.at_ms else None
    return LogLine(line.number, line.offset, text, rest, at_ms)
