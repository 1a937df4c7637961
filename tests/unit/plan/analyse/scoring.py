"""How well the analyser reads the corpus: every script beside it has a truth written by hand."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from anygpu.plan.analyse.fields import public_datasets
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.script import analyse

SCRIPTS = Path(__file__).parent.parent / "scripts"
SETS = ("frameworks", "lints")
VALUES = (
    "model",
    "parameters",
    "batch_size",
    "epochs",
    "steps",
    "precision",
    "workers",
    "dataset",
    "multi_gpu",
)
YES_NO = ("checkpointing", "resuming", "needs_gpu")
FIELDS = ("frameworks", *VALUES, *YES_NO, "lints")
PARAMETERS_WITHIN = 0.25


@dataclass(frozen=True)
class Case:
    """One script, what it says, and what was read."""

    name: str
    truth: Mapping[str, Any]
    read: Analysis


@dataclass(frozen=True)
class Score:
    """Right, reported and true: precision is right of reported, recall right of true."""

    right: int
    reported: int
    true: int

    @property
    def precision(self) -> float:
        return self.right / self.reported if self.reported else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.true if self.true else 1.0


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    return tuple(_case(path) for path in sorted(SCRIPTS.glob("*.truth.json")))


def _case(path: Path) -> Case:
    truth = json.loads(path.read_text())
    stem = path.name.removesuffix(".truth.json")
    script = next(p for p in (SCRIPTS / f"{stem}.py", SCRIPTS / f"{stem}.ipynb") if p.exists())
    files = {name: (SCRIPTS / name).read_text() for name in truth.get("files", ())}
    return Case(stem, truth, analyse(script.read_bytes(), name=script.name, args=truth["args"], files=files))


def score(field: str) -> Score:
    totals = [_scored(case, field) for case in cases()]
    return Score(*(sum(column) for column in zip(*totals, strict=True)))


def _scored(case: Case, field: str) -> tuple[int, int, int]:
    if field in SETS:
        found, true = reported_set(case.read, field), set(case.truth[field])
        return len(found & true), len(found), len(true)
    found, true = reported(case.read, field), case.truth[field]
    return int(same(field, found, true) and true is not None), int(found is not None), int(true is not None)


def reported(read: Analysis, field: str) -> Any:
    found = getattr(read, field)
    return None if found is None else found.value


def reported_set(read: Analysis, field: str) -> set[str]:
    return {lint.code for lint in read.lints} if field == "lints" else {f.value for f in read.frameworks}


def same(field: str, found: Any, true: Any) -> bool:
    if found is None or true is None:
        return found is None and true is None
    if field == "parameters":
        return bool(abs(found - true) <= PARAMETERS_WITHIN * true)
    if field == "dataset":
        return _plain(found) == _plain(true) or _is_known_as(found, true)
    return bool(found == true)


def _is_known_as(found: str, true: str) -> bool:
    """data/openwebtext is openwebtext."""
    row = public_datasets.find_dataset(found)
    return row is not None and row == public_datasets.find_dataset(true)


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum() or c == "/")


def differences() -> Iterator[str]:
    """What was read wrongly, for the person who mends it."""
    for case in cases():
        for field in FIELDS:
            if field in SETS:
                found, true = reported_set(case.read, field), set(case.truth[field])
                if found != true:
                    yield f"{case.name}: {field}: too much {sorted(found - true)}, missing {sorted(true - found)}"
            elif not same(field, reported(case.read, field), case.truth[field]):
                yield f"{case.name}: {field}: read {reported(case.read, field)!r}, is {case.truth[field]!r}"
