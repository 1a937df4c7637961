"""Select the target and feature columns of a table. Rows without a target value are dropped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.data.tables import MISSING, NUMBER, Table, missing_column
from anygpu.trainers.errors import BadDataset, Finding
from anygpu.trainers.tabular.settings import CLASSIFICATION, OPTIONS, REGRESSION

MANY_CLASSES = 20  # a target with at most this many distinct integers is treated as classes
MIN_ROWS = 10
LARGEST = 3e38  # limit of the 32-bit floats an exported model accepts


@dataclass(frozen=True)
class Column:
    name: str
    is_number: bool
    values: tuple[Any, ...]  # floats (NaN if missing) or strings ("" if missing)


@dataclass(frozen=True)
class Columns:
    """The feature columns and the target values of a table. `classes` is empty for a regression."""

    features: tuple[Column, ...]
    target: tuple[Any, ...]
    classes: tuple[str, ...]
    sha256: str

    @property
    def task(self) -> str:
        return CLASSIFICATION if self.classes else REGRESSION


def choose_columns(table: Table, config: TrainingConfig) -> Columns:
    """Select and check the columns that the settings name; raise one BadDataset that lists every problem."""
    findings: list[Finding] = []
    wanted = _feature_names(table, config, findings)
    if findings:
        raise BadDataset(findings)
    target = table.column(str(config.option("target")))
    rows = [row for row, value in zip(table.rows, target, strict=True) if value is not None]
    targets = [value for value in target if value is not None]
    features = tuple(_column(table, name, rows) for name in wanted)
    findings += _unusable(
        table.path, features, targets, int(config.option("max_categories", OPTIONS["max_categories"]))
    )
    classes = _classes(table.path, targets, config, findings)
    if findings:
        raise BadDataset(findings)
    return Columns(
        features, tuple(map(_as_text, targets)) if classes else tuple(targets), classes, table.sha256
    )


def _feature_names(table: Table, config: TrainingConfig, findings: list[Finding]) -> tuple[str, ...]:
    target, features = str(config.option("target")), split_list(config.option("features"))
    dropped = split_list(config.option("drop"))
    for what, given in (("features", features), ("drop", dropped)):
        unknown = [name for name in given if name not in table.columns]
        findings += [
            Finding(table.path, f"{what}: {missing_column(name, table.columns)}") for name in unknown
        ]
    empty = {name for name, kind in zip(table.columns, table.kinds, strict=True) if kind == MISSING}
    out = {target, *dropped, *empty}
    wanted = tuple(name for name in features or table.columns if name not in out)
    if not wanted and not findings:
        findings.append(
            Finding(
                table.path,
                f"no column is left from which {target!r} could be predicted; change the settings features or drop",
            )
        )
    return wanted


def split_list(given: Any) -> list[str]:
    if given is None:
        return []
    return [part.strip() for part in given.split(",")] if isinstance(given, str) else [str(x) for x in given]


def _column(table: Table, name: str, rows: Sequence[Sequence[Any]]) -> Column:
    at = table.columns.index(name)
    values = (row[at] for row in rows)
    if table.kinds[at] == NUMBER:
        return Column(name, True, tuple(map(_number, values)))
    return Column(name, False, tuple("" if value is None else str(value) for value in values))


def _number(value: float | None) -> float:
    return math.nan if value is None or abs(value) > LARGEST else value


def _as_text(value: float | str) -> str:
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _unusable(
    path: Path, features: Iterable[Column], target: Sequence[Any], max_categories: int
) -> Iterable[Finding]:
    if len(target) < MIN_ROWS:
        yield Finding(
            path,
            f"only {len(target)} rows have a value in the target column; add rows, at least {MIN_ROWS} are "
            "needed",
        )
    for column in features:
        different = 0 if column.is_number else len(set(column.values))
        if different > max_categories:
            problem = f"has {different:,} different texts, too many for a category: drop it, or raise max_categories"
            yield Finding(path, f"column {column.name!r} {problem}")


def _classes(
    path: Path, target: Sequence[Any], config: TrainingConfig, findings: list[Finding]
) -> tuple[str, ...]:
    name, wrong = config.option("target"), next((x for x in target if isinstance(x, str)), None)
    if config.task == REGRESSION:
        if wrong is not None:
            findings.append(
                Finding(
                    path,
                    f"the target column {name!r} contains {wrong!r}, which is not a number; correct it, or set task: "
                    "classification",
                )
            )
        return ()
    if not config.task and wrong is None and not _looks_like_classes(target):
        return ()
    classes = _in_order(set(map(_as_text, target)))
    if len(classes) == 1:
        findings.append(
            Finding(
                path,
                f"the target column {name!r} has only one value, {classes[0]!r}; a classification needs two or "
                "more: add rows, or set another target",
            )
        )
    return tuple(classes)


def _looks_like_classes(target: Sequence[float]) -> bool:
    different = set(target)
    return len(different) <= MANY_CLASSES and all(value.is_integer() for value in different)


def _in_order(classes: set[str]) -> list[str]:
    """Sort the classes as the models do: integers by value, strings alphabetically."""
    return sorted(classes, key=int) if are_whole(classes) else sorted(classes)


def are_whole(classes: Iterable[str]) -> bool:
    return all(each.removeprefix("-").isdecimal() for each in classes)
