"""Read metrics and progress from a job's output. Each line is parsed by the first parser that recognises it."""

from __future__ import annotations

from anygpu.agent.parsers.lines import LineSplitter
from anygpu.agent.parsers.prefixes import without_log_prefix
from anygpu.agent.parsers.state import RunState

TYPE_CHECKING = False  # importing typing takes longer than importing this package
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    # A parser returns False if it does not recognise the line, and True if it has parsed the line. If other text
    # follows on the same line, the parser returns that text.
    Parser = Callable[[str, RunState], "bool | str"]
    Reading = tuple[str, Any]

IDLE_S = 1.0

# All parsers, in the order in which they are tried: module, function, and strings of which a line must contain one. A
# module is imported at the first line with such a string: most runs need two or three parsers, and compiling the
# patterns of all takes longer than starting the agent.
_PARSERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("json_lines", "parse_json_line", ('"progress"',)),
    ("frameworks.huggingface", "parse_huggingface", ("{'",)),
    (
        "frameworks.ultralytics",
        "parse_ultralytics",
        ("GPU_mem", "%", " all ", " Instances ", " epochs completed in ", "top1_acc"),
    ),
    ("tqdm", "parse_tqdm", ("%|", "it [")),
    ("frameworks.keras", "parse_keras", ("/step", " - ")),
    ("frameworks.lightning", "parse_lightning", (" • ", "Trainer.fit", "DataLoader", "│", "    ")),
    ("frameworks.tabular", "parse_boosting", ("]\t",)),
    ("frameworks.catboost", "parse_catboost", ("remaining: ",)),
    (
        "frameworks.timm",
        "parse_timm",
        ("Train: ", "Test: ", "Test (", "Scheduled epochs: ", "*** Best metric: "),
    ),
    ("frameworks.pytorch", "parse_pytorch", ("Test set:", "Acc@", "]\t", "] loss: ", "  [")),
    ("frameworks.tabular", "parse_sklearn", ("inertia", "Norm: ")),
    ("generic", "parse_generic", ("",)),
)
_loaded: dict[str, Parser] = {}


def parsers_for_line(text: str) -> Iterator[Parser]:
    """Yield the parsers that may recognise a line. The first one that recognises it is used."""
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


class OutputReader:
    """Reads metrics and progress from the merged stdout and stderr of one run.

    The result does not depend on how the bytes are split over calls. A progress reading contains every value
    known so far; a value that is not known yet has no key. Call `feed(b"", now)` from time to time while
    nothing is printed: it returns progress that was held back to limit the rate of readings, and it reads a
    progress bar that has not changed for IDLE_S.
    """

    def __init__(self) -> None:
        self._lines = LineSplitter()
        self._state = RunState()
        self._moved_at: float | None = None

    @property
    def first_steps(self) -> dict[str, int]:
        """The first step that the output showed, by unit: `step`, `epoch` or `count`."""
        return self._state.first_steps

    @property
    def last_steps(self) -> dict[str, int]:
        """The last step that the output showed, by unit."""
        return self._state.position.steps_by_unit()

    def feed(self, data: bytes, now: float) -> list[Reading]:
        if data:
            self._moved_at = now
            return self._read(self._lines.feed(data), now)
        return self._read(self._idle_lines(now), now)

    def take_partial_line(self) -> bytes:
        """Remove and return the beginning of a line whose end was not fed yet."""
        return self._lines.take_partial_line()

    def close(self, now: float) -> list[Reading]:
        """Return the readings of the last, incomplete line and all readings that were held back.

        The reader cannot be used afterwards.
        """
        self._read_lines(self._lines.close(), now)
        self._state.finish()
        return self._state.take_readings()

    def _read(self, lines: list[str], now: float) -> list[Reading]:
        self._read_lines(lines, now)
        self._state.emit_progress()
        return self._state.take_readings()

    def _idle_lines(self, now: float) -> list[str]:
        if self._moved_at is None or now - self._moved_at < IDLE_S:
            return []
        self._moved_at = None
        return self._lines.complete_bar()

    def _read_lines(self, lines: list[str], now: float) -> None:
        self._state.now = now
        for line in lines:
            rest: bool | str = without_log_prefix(line)
            while isinstance(rest, str):
                rest = self._read_line(rest)

    def _read_line(self, line: str) -> bool | str:
        for parse in parsers_for_line(line):
            try:
                result = parse(line, self._state)
            except Exception:
                # An unexpected line must not stop the reading of the output.
                continue
            if result:
                self._state.record_first_steps()
                self._state.emit_progress()
                return result
        return False
