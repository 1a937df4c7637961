"""What a model says of some rows, asked after every epoch: of a model that grows, only what is new is asked.

Sums are made in the order of the trees, as the frameworks make them: after a resume they are made of the whole model
at once, and come to the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anygpu.trainers.tabular import boosting
from anygpu.trainers.tabular.settings import Model

Says = Callable[[Any], Any]  # an estimator -> a probability for each class, or numbers


def says(model: Model, inputs: Any) -> Says:
    """To be asked about the same rows again and again."""
    if model.epoch in ("xgboost", "lightgbm"):
        return _Sums(inputs)
    if model.is_forest:
        return _Votes(inputs)
    return lambda estimator: _whole(estimator, inputs)


def _whole(estimator: Any, inputs: Any) -> Any:
    return _asked(estimator, hasattr(estimator, "classes_"))(inputs)


def _asked(estimator: Any, is_classes: bool) -> Any:
    return estimator.predict_proba if is_classes else estimator.predict


class _Votes:
    """Of a forest: the mean of what its trees say."""

    def __init__(self, inputs: Any) -> None:
        import numpy

        self._inputs = numpy.asarray(inputs, dtype="f4", order="C")
        self._trees = 0
        self._sum: Any = 0.0

    def __call__(self, forest: Any) -> Any:
        for tree in forest.estimators_[self._trees :]:
            self._sum = self._sum + _asked(tree, hasattr(forest, "classes_"))(self._inputs, check_input=False)
        self._trees = len(forest.estimators_)
        return self._sum / self._trees


class _Sums:
    """Of boosting: the sum of what its trees say."""

    def __init__(self, inputs: Any) -> None:
        self._inputs = inputs
        self._rounds = 0
        self._raw: Any = None

    def __call__(self, estimator: Any) -> Any:
        done = boosting.rounds_of(estimator)
        ends = range(self._rounds + 1, done + 1) if self._rounds else [done]
        for end in ends:
            self._raw = boosting.raw(estimator, self._inputs, self._rounds, end, self._raw)
            self._rounds = end
        return _probabilities(self._raw) if hasattr(estimator, "classes_") else self._raw


def _probabilities(raw: Any) -> Any:
    import numpy

    sums = numpy.asarray(raw, dtype="f8")
    if sums.ndim == 1:  # of two classes: how much rather the second
        second = 1 / (1 + numpy.exp(-sums))
        return numpy.column_stack([1 - second, second])
    powers = numpy.exp(sums - sums.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
