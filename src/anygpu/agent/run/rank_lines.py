"""Select the lines of one rank in the output of a machine on which torchrun runs several.

`torchrun_main.py` writes the lines of all ranks but the first of the machine with the prefix `[rank N] `.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.assignment import RankLayout

_START = b"[rank "
_PREFIX = re.compile(rb"\[rank (\d{1,7})\] ")
_PREFIX_BYTES = 15  # of the longest prefix


class RankSelection:
    """Passes on the lines of one rank. The result does not depend on how the bytes are split over calls."""

    def __init__(self, rank: int, first: int, processes: int) -> None:
        """Create the selection of `rank`, on a machine with `processes` ranks from `first` on."""
        self._rank, self._first = rank, first
        self._others = range(first + 1, first + processes)
        self._start = b""  # the beginning of a line whose rank is not known yet
        self._is_selected: bool | None = None  # whether the current line is; None at the start of a line

    def feed(self, data: bytes) -> bytes:
        text, self._start = self._start + data, b""
        selected, at = [], 0
        while at < len(text):
            if self._is_selected is None:
                if _may_become_prefix(text[at : at + _PREFIX_BYTES]):
                    self._start = text[at:]
                    break
                self._is_selected = self._rank_of(text, at) == self._rank
            end = self._end_of_lines(text, at)
            if self._is_selected:
                selected.append(text[at:end])
            if text.endswith(b"\n", at, end):
                self._is_selected = None
            at = end
        return b"".join(selected)

    def close(self) -> bytes:
        """Return the beginning of a line that could still have got a prefix."""
        start, self._start = self._start, b""
        return start if self._rank == self._first else b""

    def selects(self, line: bytes) -> bool:
        """Return whether a whole line is of the rank."""
        return self._rank_of(line, 0) == self._rank

    def _rank_of(self, text: bytes, at: int) -> int:
        found = _PREFIX.match(text, at)
        rank = int(found[1]) if found else self._first
        return rank if rank in self._others else self._first

    def _end_of_lines(self, text: bytes, at: int) -> int:
        """Return where the current line ends, or a later one if all between are lines of the first rank."""
        if self._is_selected and self._rank == self._first:
            may_be_other = text.find(b"\n[", at)
            end = may_be_other if may_be_other >= 0 else text.rfind(b"\n", at)
        else:
            end = text.find(b"\n", at)
        return end + 1 if end >= 0 else len(text)


def first_rank_of(layout: RankLayout) -> RankSelection | None:
    """Return the selection of the first rank of a node; None if its output is not that of several ranks."""
    if layout.launcher != "torchrun" or layout.processes_per_node == 1:
        return None
    first = layout.node * layout.processes_per_node
    return RankSelection(first, first, layout.processes_per_node)


def _may_become_prefix(text: bytes) -> bool:
    """Return whether a text that is not complete may be the beginning of a prefix."""
    if len(text) <= len(_START):
        return _START.startswith(text)
    number = text[len(_START) :].removesuffix(b"]")
    return text.startswith(_START) and len(text) < _PREFIX_BYTES and number.isdigit()
