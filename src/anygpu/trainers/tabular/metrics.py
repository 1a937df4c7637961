"""How good predictions are."""

from __future__ import annotations

from typing import Any

GOALS = {"classification": ("log_loss", "min"), "regression": ("rmse", "min")}


def of_classes(said: Any, codes: Any, count: int) -> dict[str, float]:
    """`said`: a probability for each class; `codes` number the classes, of which there are `count`."""
    import numpy
    from sklearn import metrics

    said = numpy.asarray(said, dtype="f8")
    said = said / said.sum(axis=1, keepdims=True)
    guess = said.argmax(axis=1)
    known = range(count)
    return {
        "accuracy": float((guess == codes).mean()),
        "f1": float(metrics.f1_score(codes, guess, average="macro", labels=list(known), zero_division=0.0)),
        "log_loss": float(metrics.log_loss(codes, said, labels=list(known))),
        **_auc(metrics, numpy, codes, said, count),
    }


def _auc(metrics: Any, numpy: Any, codes: Any, said: Any, count: int) -> dict[str, float]:
    """Nothing where the rows do not hold every class."""
    if len(numpy.unique(codes)) < count:
        return {}
    if count == 2:
        return {"auc": float(metrics.roc_auc_score(codes, said[:, 1]))}
    return {"auc": float(metrics.roc_auc_score(codes, said, multi_class="ovr"))}


def of_numbers(said: Any, target: Any) -> dict[str, float]:
    import numpy
    from sklearn import metrics

    said = numpy.asarray(said, dtype="f8").reshape(-1)
    return {
        "rmse": float(numpy.sqrt(((said - target) ** 2).mean())),
        "mae": float(numpy.abs(said - target).mean()),
        **({"r2": float(metrics.r2_score(target, said))} if len(target) > 1 else {}),
    }
