"""Parser for Ultralytics: a row of losses for each epoch, and a row `all` for each validation.

The header line above the rows names their columns.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

_ROW = re.compile(
    r"\s{0,20}(\d{1,9})/(\d{1,9})\s{1,20}[\d.]{1,12}[KMGT]?B?\s{1,20}([-\d.naife+ ]{1,400}):\s{0,4}(\d{1,3})%"
)
_ALL_ROW = re.compile(r"\s{0,40}all\s{1,20}([-\d.naife+ ]{1,400})$")
_COMPLETED = re.compile(r"\s{0,4}\d{1,9} epochs completed in ")
_KINDS = {"Box": "(B)", "Mask": "(M)", "Pose": "(P)"}
_SHORT = {"P": "precision", "R": "recall"}
_COUNTS = ("Instances", "Size", "Images")
_DETECTION = [(name, "(B)") for name in ("P", "R", "mAP50", "mAP50-95")]


def parse_ultralytics(text: str, state: RunState) -> bool:
    if "GPU_mem" in text:
        state.memory["ultralytics losses"] = text.partition("GPU_mem")[2].split()
        state.memory["ultralytics best"] = False
        return True
    if "ultralytics losses" not in state.memory:
        return False
    return _parse_epoch(text, state) or _parse_scores(text, state) or _parse_end(text, state)


def _parse_epoch(text: str, state: RunState) -> bool:
    row = _ROW.match(text)
    if not row:
        return False
    ordinal, total, percent = int(row[1]), int(row[2]), int(row[4])
    state.position.start_epoch(ordinal, total)
    state.position.set_epoch_fraction(percent / 100)
    if percent >= 100:
        state.position.end_epoch(ordinal, total)
        state.add_points(ordinal, _losses(state.memory["ultralytics losses"], row[3].split()))
    return True


def _losses(head: list[str], values: list[str]) -> list[tuple[str, float]]:
    if len(head) != len(values):
        return []
    named = zip(head, values)
    return [(f"train/{name}", float(value)) for name, value in named if name not in _COUNTS]


def _parse_scores(text: str, state: RunState) -> bool:
    head, marker, tail = text.partition(" Instances ")
    if marker and head.split() == ["Class", "Images"]:
        if "…" not in tail:  # a narrow terminal cuts the header
            state.memory["ultralytics scores"] = _score_names(tail.partition(":")[0])
        return True
    if head.split()[:2] == ["classes", "top1_acc"]:
        state.memory["ultralytics scores"] = [("accuracy_top1", ""), ("accuracy_top5", "")]
        return True
    row = _ALL_ROW.match(text)
    if row:
        _add_scores(row[1].split(), state)
    return row is not None


def _score_names(columns: str) -> list[tuple[str, str]]:
    """Parse a header such as `Box(P R mAP50 mAP50-95) Mask(P ...)`.

    Return pairs of column name and group suffix, such as `(B)` for Box.
    """
    names, kind = [], "(B)"
    for word in columns.replace("(", "( ").replace(")", " ").split():
        if word.endswith("("):
            kind = _KINDS.get(word[:-1], f"({word[:-1]})")
        else:
            names.append((word, kind))
    return names


def _add_scores(values: list[str], state: RunState) -> None:
    names = state.memory.get("ultralytics scores", _DETECTION)
    values = values[-len(names) :]  # the first values are the numbers of images and instances
    under = "best" if state.memory.get("ultralytics best") else "metrics"
    if len(values) == len(names):
        found = [
            (f"{under}/{_SHORT.get(name, name)}{kind}", float(v)) for (name, kind), v in zip(names, values)
        ]
        state.add_points(state.position.completed_epochs, found)


def _parse_end(text: str, state: RunState) -> bool:
    """Recognise the end of training.

    Ultralytics then validates the best weights again. The scores of that validation are named `best/...`.
    """
    ended = _COMPLETED.match(text)
    if ended:
        state.memory["ultralytics best"] = True
    return bool(ended)
