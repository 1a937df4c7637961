"""Read metrics and progress from a job's output, with the parser that knows each line."""

from __future__ import annotations

from anygpu.agent.parsers.lines import LineSplitter
from anygpu.agent.parsers.state import RunState

TYPE_CHECKING = False
TYPE_CHECKING = False  # importing typing would cost more than this whole package
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from anygpu.agent.parsers.state import RunState

    # False: not mine. True: read. Text: read up to this, which something else printed onto the same line.
    Parser = Callable[[str, RunState], "bool | str"]
    Reading = tuple[str, Any]

_PARSERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # module, function, and strings of which a line must contain one
    ("json_lines", "parse_json_line", ('"progress"',)),
    ("huggingface", "parse_huggingface", ("{'",)),
    (
        "ultralytics",
        "parse_ultralytics",
        ("GPU_mem", "%", " all ", " Instances ", " epochs completed in ", "top1_acc"),
    ),
    ("tqdm", "parse_tqdm", ("%|", "it [")),
    ("keras", "parse_keras", ("/step", " - ")),
    ("lightning", "parse_lightning", (" • ", "Trainer.fit", "DataLoader", "│", "    ")),
    ("tabular", "parse_boosting", ("]\t",)),
    ("pytorch", "parse_pytorch", ("Test set:", "Acc@", "]\t", "] loss: ", "  [")),
    ("tabular", "parse_sklearn", ("inertia", "Norm: ")),
    ("generic", "parse_generic", ("",)),
)
_loaded: dict[str, Parser] = {}


def parsers_for_line(text: str) -> Iterator[Parser]:
    for module, function, marks in _PARSERS:
        for mark in marks:
            if mark in text:
                yield _loaded.get(function) or _load(module, function)
                break


def _load(module: str, function: str) -> Parser:
    from importlib import import_module

    parser: Parser = getattr(import_module(f"anygpu.agent.parsers.{module}"), function)
    _loaded[function] = parser
    return parser


IDLE_S = 1.0


class OutputReader:
    """Reads one run's merged stdout and stderr, in whatever pieces it comes.

    What is read does not depend on how the bytes were cut. A progress reading is the whole of what is known:
    a key it leaves out is not known. `feed(b"", now)` gives progress that was held back to keep its rate low, and
    reads a bar that has stood still for RESTING_S; call it now and then while nothing is printed.
    """

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._run = RunState()
        self._moved_at: float | None = None

    def feed(self, data: bytes, now: float) -> list[Reading]:
        if data:
            self._moved_at = now
            return self._read(self._lines.feed(data), now)
        return self._read(self._idle_lines(now), now)

    def skip_bytes(self) -> None:
        """Bytes were left out here. The line they tore is not read, so that no half number becomes a value."""
        self._lines.mark_gap()

    def close(self, now: float) -> list[Reading]:
        """What the last, unfinished line and everything held back give. Nothing may be fed afterwards."""
        self._read_lines(self._lines.close(), now)
        self._run.finish()
        return self._run.take_readings()

    def _read(self, lines: list[str], now: float) -> list[Reading]:
        self._read_lines(lines, now)
        self._run.emit_progress()
        return self._run.take_readings()

    def _idle_lines(self, now: float) -> list[str]:
        if self._moved_at is None or now - self._moved_at < IDLE_S:
            return []
        self._moved_at = None
        return self._lines.complete_bar()

    def _read_lines(self, lines: list[str], now: float) -> None:
        self._run.now = now
        for line in lines:
            rest: bool | str = line
            while isinstance(rest, str):
                rest = self._read_line(rest)

    def _read_line(self, line: str) -> bool | str:
        for family in parsers_for_line(line):
            try:
                read = family(line, self._run)
            except Exception:
                # A line no one foresaw must cost its own reading, never the job's output.
                continue
            if read:
                self._run.emit_progress()
                return read
        return False
