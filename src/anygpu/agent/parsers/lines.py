"""Split output into lines, and select the few lines that a parser may recognise."""

from __future__ import annotations

import re

LINE_LIMIT = 16384

# Every line that a parser recognises contains one of these, in upper or lower case. Searching a whole block of output
# for them is very fast, so output without metrics costs almost nothing.
MARKERS = (
    b"epoch",
    b"loss",
    b"acc",
    b"auc",
    b"score",
    b"step",
    b"iter",
    b"%|",
    b"it/s",
    b"s/it",
    b"gpu_mem",
    b"remaining: ",
    b" all ",
    b" metric ",
    b'"progress"',
    b"{'",
    b"]\t",
    "━".encode(),
    "│".encode(),
)

_CURSOR_MOVE = re.compile(r"\x1b\[[0-?]{0,32}[ -/]{0,4}[ABEFGHJdf]")
_ESCAPE = re.compile(
    r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[@-Z\\-_]|[\x00-\x08\x0e-\x1f\x7f]"
)


class LineSplitter:
    """Splits output at every \\r and \\n, and returns the lines that a parser may recognise."""

    def __init__(self) -> None:
        self._partial_line = bytearray()  # at most its first LINE_LIMIT bytes

    def feed(self, data: bytes) -> list[str]:
        data = data.replace(b"\r", b"\n")
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return []
        block = bytes(self._partial_line) + data[:end]
        self._partial_line.clear()
        self._keep(data[end : end + LINE_LIMIT])
        return _candidate_lines(block)

    def close(self) -> list[str]:
        block = bytes(self._partial_line) + b"\n"
        self._partial_line.clear()
        return _candidate_lines(block)

    def complete_bar(self) -> list[str]:
        """Return the line that has not ended yet if it shows a whole progress bar; else an empty list.

        A progress bar ends its line only when it prints its next update, so the last update would stay
        unread.
        """
        line = bytes(self._partial_line)
        return _candidate_lines(line + b"\n") if b"%|" in line and line.rstrip().endswith(b"]") else []

    def take_partial_line(self) -> bytes:
        line = bytes(self._partial_line)
        self._partial_line.clear()
        return line

    def _keep(self, data: bytes) -> None:
        self._partial_line += data[: LINE_LIMIT - len(self._partial_line)]


def may_be_recognised(line: bytes) -> bool:
    """Return whether a parser may recognise the line: it contains one of MARKERS."""
    lowered = line.lower()
    return any(needle in lowered for needle in MARKERS)


def _candidate_lines(block: bytes) -> list[str]:
    lowered = block.lower()
    ends: dict[int, int] = {}
    for needle in MARKERS:
        _find_lines(lowered, needle, ends)
    texts: list[str] = []
    for start in sorted(ends):
        texts.extend(_clean_texts(block[start : ends[start]]))
    return texts


def _find_lines(block: bytes, needle: bytes, ends: dict[int, int]) -> None:
    at = block.find(needle)
    while at >= 0:
        start = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        if at + len(needle) - start <= LINE_LIMIT:
            ends[start] = min(end, start + LINE_LIMIT)
        at = block.find(needle, end)


def _clean_texts(line: bytes) -> list[str]:
    """Return the text of a line without escape sequences, split where the cursor moves to another position."""
    text = line.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _CURSOR_MOVE.sub("\n", text)
    text = _ESCAPE.sub("", text)
    return [part.rstrip() for part in text.split("\n") if part.strip()]
