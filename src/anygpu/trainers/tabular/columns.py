"""A table's columns as a model takes them: what to predict, from what, and which rows are for what.

A column whose values all are numbers is one of numbers; any other is one of categories. Rows without a target are left
out.
"""

from __future__ import annotations

import difflib
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadDataset, Finding
from anygpu.trainers.tabular.settings import CLASSIFICATION, REGRESSION

MANY_CLASSES = 20  # a target of whole numbers with at most so many different ones is taken for classes
MAX_CATEGORIES = 100
MIN_ROWS = 10
ABSENT = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})


@dataclass(frozen=True)
class Column:
    name: str
    is_number: bool
    values: tuple[Any, ...]  # floats with NaN, or texts with "" where nothing is known


@dataclass(frozen=True)
class Columns:
    """What to predict, `target`, from `features`; `classes` is empty for a regression."""

    features: tuple[Column, ...]
    target: tuple[Any, ...]
    classes: tuple[str, ...]
    sha256: str

    @property
    def task(self) -> str:
        return CLASSIFICATION if self.classes else REGRESSION


def chosen(
    path: Path, names: Sequence[str], rows: Sequence[Sequence[Any]], config: TrainingConfig
) -> Columns:
    """BadDataset says everything that is wrong with them."""
    findings: list[Finding] = []
    target_name = str(config.option("target"))
    wanted = _wanted(path, names, config, findings)
    if findings:
        raise BadDataset(findings)
    table = [row for row in rows if not _is_absent(row[names.index(target_name)])]
    features = tuple(_column(name, [row[names.index(name)] for row in table]) for name in wanted)
    target = _column(target_name, [row[names.index(target_name)] for row in table])
    findings += _unusable(path, features, len(table), int(config.option("max_categories", MAX_CATEGORIES)))
    classes = _classes(path, target, config.task, findings)
    if findings:
        raise BadDataset(findings)
    values = tuple(map(_as_text, target.values)) if classes else target.values
    return Columns(features, values, classes, _hash(names, rows))


def _wanted(
    path: Path, names: Sequence[str], config: TrainingConfig, findings: list[Finding]
) -> tuple[str, ...]:
    target, features = str(config.option("target")), _listed(config.option("features"))
    dropped = _listed(config.option("drop"))
    for what, given in (("target", [target]), ("features", features), ("drop", dropped)):
        findings += [Finding(path, _no_column(what, name, names)) for name in given if name not in names]
    wanted = tuple(name for name in features or names if name != target and name not in dropped)
    if not wanted:
        findings.append(Finding(path, f"no column is left to predict {target!r} from"))
    return wanted


def _listed(given: Any) -> list[str]:
    if given is None:
        return []
    return [part.strip() for part in given.split(",")] if isinstance(given, str) else [str(x) for x in given]


def _no_column(what: str, name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    said = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
    return f"{what}: the table has no column {name!r}; {said}"


def _column(name: str, values: list[Any]) -> Column:
    numbers = [_number(value) for value in values]
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers) and any(number == number for number in known):
        return Column(name, True, tuple(known))
    return Column(name, False, tuple(_as_text(value) for value in values))


def _number(value: Any) -> float | None:
    """NaN where nothing is known; None for what is no number. Rounded as an exported model takes it."""
    if isinstance(value, bool):
        return None
    if _is_absent(value):
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < 3e38 else math.nan


def _is_absent(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip().lower() in ABSENT)


def _as_text(value: Any) -> str:
    if _is_absent(value):
        return ""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value).strip()


def _unusable(path: Path, features: Iterable[Column], rows: int, max_categories: int) -> Iterable[Finding]:
    if rows < MIN_ROWS:
        yield Finding(path, f"{rows} rows have a target; at least {MIN_ROWS} are needed")
        return
    for column in features:
        different = 0 if column.is_number else len(set(column.values))
        if different > max_categories:
            said = f"has {different:,} different texts, which are no categories: drop it, or raise max_categories"
            yield Finding(path, f"column {column.name!r} {said}")


def _classes(path: Path, target: Column, task: str, findings: list[Finding]) -> tuple[str, ...]:
    if task == REGRESSION and not target.is_number:
        wrong = next(value for value in target.values if _number(value) is None)
        findings.append(
            Finding(path, f"target {target.name!r} holds {wrong!r}, which is no number to predict")
        )
    if task == REGRESSION or (not task and not _looks_like_classes(target)):
        return ()
    found = _in_order(set(map(_as_text, target.values)))
    if len(found) < 2:
        findings.append(Finding(path, f"target {target.name!r} has one class only: {found}"))
    return tuple(found)


def _looks_like_classes(target: Column) -> bool:
    if not target.is_number:
        return True
    different = set(target.values)
    return len(different) <= MANY_CLASSES and all(value.is_integer() for value in different)


def _in_order(classes: set[str]) -> list[str]:
    """As the models order them: whole numbers by size, texts by the alphabet."""
    return sorted(classes, key=int) if are_whole(classes) else sorted(classes)


def are_whole(classes: Iterable[str]) -> bool:
    return all(each.removeprefix("-").isdecimal() for each in classes)


def _hash(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    digest = hashlib.sha256(repr(list(names)).encode())
    for row in rows:
        digest.update(repr(list(row)).encode())
    return digest.hexdigest()
