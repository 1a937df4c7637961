"""Predict the same rows after every epoch, evaluating only new trees, and score the predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anygpu.trainers.tabular import boosting
from anygpu.trainers.tabular.settings import TabularModel

Predictor = Callable[[Any], Any]  # estimator -> class probabilities, or predicted values


def make_predictor(model: TabularModel, inputs: Any) -> Predictor:
    """Return a function that predicts the rows `inputs`. It caches the predictions of earlier trees."""
    if model.epoch in ("xgboost", "lightgbm"):
        return _BoostingPredictor(inputs)
    if model.is_forest:
        return _ForestPredictor(inputs)
    return lambda estimator: _predict_all(estimator, inputs)


def _predict_all(estimator: Any, inputs: Any) -> Any:
    return _predict_method(estimator, hasattr(estimator, "classes_"))(inputs)


def _predict_method(estimator: Any, is_classes: bool) -> Any:
    return estimator.predict_proba if is_classes else estimator.predict


class _ForestPredictor:
    """Predicts with a forest, as the mean of the predictions of its trees. Evaluates only new trees."""

    def __init__(self, inputs: Any) -> None:
        import numpy

        self._inputs = numpy.asarray(inputs, dtype="f4", order="C")
        self._trees = 0
        self._sum: Any = 0.0

    def __call__(self, forest: Any) -> Any:
        for tree in forest.estimators_[self._trees :]:
            self._sum = self._sum + _predict_method(tree, hasattr(forest, "classes_"))(
                self._inputs, check_input=False
            )
        self._trees = len(forest.estimators_)
        return self._sum / self._trees


class _BoostingPredictor:
    """Predicts with a boosting model, from the sum of its rounds' raw scores. Evaluates only new rounds."""

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
    if sums.ndim == 1:  # two classes: the log-odds of the second
        second = 1 / (1 + numpy.exp(-sums))
        return numpy.column_stack([1 - second, second])
    powers = numpy.exp(sums - sums.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


GOALS = {"classification": ("log_loss", "min"), "regression": ("rmse", "min")}


def classification_scores(probabilities: Any, codes: Any, count: int) -> dict[str, float]:
    """Compute the metrics of a classification.

    `probabilities`: one column for each class; `codes`: true class indices; `count`: number of classes.
    """
    import numpy
    from sklearn import metrics

    probabilities = numpy.asarray(probabilities, dtype="f8")
    probabilities = probabilities / probabilities.sum(axis=1, keepdims=True)
    guess = probabilities.argmax(axis=1)
    class_indices = list(range(count))
    return {
        "accuracy": float((guess == codes).mean()),
        "f1": float(metrics.f1_score(codes, guess, average="macro", labels=class_indices, zero_division=0.0)),
        "log_loss": float(metrics.log_loss(codes, probabilities, labels=class_indices)),
        **_auc(metrics, numpy, codes, probabilities, count),
    }


def _auc(metrics: Any, numpy: Any, codes: Any, probabilities: Any, count: int) -> dict[str, float]:
    """Return the metric `auc` (ROC AUC), or nothing if a class does not occur in the rows."""
    if len(numpy.unique(codes)) < count:
        return {}
    if count == 2:
        return {"auc": float(metrics.roc_auc_score(codes, probabilities[:, 1]))}
    return {"auc": float(metrics.roc_auc_score(codes, probabilities, multi_class="ovr"))}


def regression_scores(predicted: Any, target: Any) -> dict[str, float]:
    import numpy
    from sklearn import metrics

    predicted = numpy.asarray(predicted, dtype="f8").reshape(-1)
    return {
        "rmse": float(numpy.sqrt(((predicted - target) ** 2).mean())),
        "mae": float(numpy.abs(predicted - target).mean()),
        **({"r2": float(metrics.r2_score(target, predicted))} if len(target) > 1 else {}),
    }
