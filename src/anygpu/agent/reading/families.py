"""Every family of output we read, in the order they are asked. The first that knows a line has it.

A family is loaded when a line has one of its marks for the first time: most runs need two or three of them, and
compiling the patterns of all takes longer than starting the agent.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anygpu.agent.reading.run import Run

    # False: not mine. True: read. Text: read up to this, which something else printed onto the same line.
    Family = Callable[[str, Run], "bool | str"]

_MARKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("json_progress", ('"progress"',)),
    ("huggingface", ("{'",)),
    ("ultralytics", ("GPU_mem", "%", " all ", " Instances ", " epochs completed in ", "top1_acc")),
    ("tqdm", ("%|", "it [")),
    ("keras", ("/step", " - ")),
    ("lightning", (" • ", "Trainer.fit", "DataLoader", "│", "    ")),
    ("boosting", ("]\t",)),
    ("pytorch", ("Test set:", "Acc@", "]\t", "] loss: ", "  [")),
    ("sklearn", ("inertia", "Norm: ")),
    ("generic", ("",)),
)
_loaded: dict[str, Family] = {}


def for_line(text: str) -> Iterator[Family]:
    for name, marks in _MARKS:
        for mark in marks:
            if mark in text:
                yield _loaded.get(name) or _load(name)
                break


def _load(name: str) -> Family:
    from importlib import import_module

    family: Family = import_module(f"anygpu.agent.reading.{name}").read
    _loaded[name] = family
    return family
