"""Split a table and convert it to arrays, with preprocessing that is later exported with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.tabular.columns import Columns, are_whole
from anygpu.trainers.tabular.settings import MODELS


@dataclass(frozen=True)
class SplitRows:
    train: Any  # arrays of row indices
    val: Any
    test: Any


def split_rows(
    target: Sequence[Any], is_classes: bool, *, val_fraction: float, test_fraction: float, seed: int
) -> SplitRows:
    """Split the rows by class, so that each class has its proportion in every split. Train has all classes."""
    import numpy

    chance = numpy.random.default_rng([seed, 0])
    order = chance.permutation(len(target))
    labels = numpy.asarray(target)[order] if is_classes else numpy.zeros(len(target))
    parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for label in numpy.unique(labels):
        own = order[labels == label]
        val, test = (_share(len(own), fraction) for fraction in (val_fraction, test_fraction))
        for part, rows in zip(parts, (own[val + test :], own[:val], own[val : val + test]), strict=True):
            part.append(rows)
    return SplitRows(*(numpy.sort(numpy.concatenate(part)) for part in parts))


def _share(rows: int, fraction: float) -> int:
    """Return how many rows of a class go into a split: at least one, but none if the class has fewer than three."""
    return 0 if not fraction or rows < 3 else max(1, round(rows * fraction))


@dataclass(frozen=True)
class SplitArrays:
    """Arrays of one split: rows before and after preprocessing, and their targets."""

    raw: Any
    inputs: Any
    target: Any  # as the model is trained on it
    truth: Any  # class indices, or the target in its original units


@dataclass(frozen=True)
class PreparedTable:
    columns: Columns
    transformer: Any
    train: SplitArrays
    val: SplitArrays
    test: SplitArrays | None
    labels: Any  # class labels used by the model; None for a regression
    centre: float = 0.0
    scale: float = 1.0


def prepare(columns: Columns, config: TrainingConfig) -> PreparedTable:
    """Split and preprocess the table. Medians, categories and scales come from the training rows only."""
    rows = split_rows(
        columns.target,
        bool(columns.classes),
        val_fraction=config.val_fraction,
        test_fraction=float(config.option("test_fraction", 0)),
        seed=config.seed,
    )
    return _Preparation(columns, config, rows).all()


class _Preparation:
    def __init__(self, columns: Columns, config: TrainingConfig, rows: SplitRows) -> None:
        import numpy

        self._numpy = numpy
        self._columns, self._config, self._rows = columns, config, rows
        self._raw = raw_rows(columns)
        self._transformer = transformer(columns, is_scaled=MODELS[config.model].is_scaled)
        self._transformer.fit(self._raw[rows.train])
        self._labels, self._target, self._truth = self._targets()
        self._centre, self._scale = self._size()

    def all(self) -> PreparedTable:
        rows = self._rows
        return PreparedTable(
            columns=self._columns,
            transformer=self._transformer,
            train=self._part(rows.train),
            val=self._part(rows.val if len(rows.val) else rows.train),
            test=self._part(rows.test) if len(rows.test) else None,
            labels=self._labels,
            centre=self._centre,
            scale=self._scale,
        )

    def _part(self, rows: Any) -> SplitArrays:
        raw = self._raw[rows]
        target = self._target[rows]
        if self._labels is None:
            target = (target - self._centre) / self._scale
        return SplitArrays(raw, self._transformer.transform(raw), target, self._truth[rows])

    def _targets(self) -> tuple[Any, Any, Any]:
        numpy, columns = self._numpy, self._columns
        if not columns.classes:
            numbers = numpy.asarray(columns.target, dtype="f8")
            return None, numbers, numbers
        codes = numpy.asarray([columns.classes.index(value) for value in columns.target])
        if self._config.model == "xgboost":  # which accepts class indices only
            labels = numpy.arange(len(columns.classes))
        else:
            labels = numpy.asarray(
                [int(x) for x in columns.classes] if are_whole(columns.classes) else columns.classes
            )
        return labels, labels[codes], codes

    def _size(self) -> tuple[float, float]:
        """Return the mean and the standard deviation by which the target is normalised.

        (0, 1) means no normalisation; only regressions with models trained in batches need it. `estimators.in_units`
        converts predictions back.
        """
        if self._labels is not None or MODELS[self._config.model].epoch != "batches":
            return 0.0, 1.0
        numbers = self._target[self._rows.train]
        return float(numbers.mean()), float(numbers.std()) or 1.0


def raw_rows(columns: Columns) -> Any:
    """Return the rows as an object array. The saved model's `predict` takes the same form.

    Numbers are rounded to 32 bits, so that the saved and the exported model get the same inputs.
    """
    import numpy

    raw = numpy.empty((len(columns.target), len(columns.features)), dtype=object)
    for at, column in enumerate(columns.features):
        values = numpy.asarray(column.values, dtype="f4").astype("f8") if column.is_number else column.values
        raw[:, at] = values
    return raw


def transformer(columns: Columns, *, is_scaled: bool) -> Any:
    """Create the preprocessing: impute missing numbers with the median, one-hot encode categories.

    An unknown category is encoded as all zeros.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [at for at, column in enumerate(columns.features) if column.is_number]
    texts = [at for at, column in enumerate(columns.features) if not column.is_number]
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    steps = []
    if numbers:
        steps.append(("numbers", make_pipeline(filled, StandardScaler()) if is_scaled else filled, numbers))
    if texts:
        steps.append(("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts))
    return ColumnTransformer(steps)
