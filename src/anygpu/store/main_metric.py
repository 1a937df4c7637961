"""The one metric that a list shows of each job, and a short curve of it, kept up to date as points arrive.

The metric is the one that a person would look at first: accuracy and similar scores on validation data, then other
scores, then the validation loss, then the loss, else the first that is reported.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from anygpu.bounds import MAX_NAME_LENGTH
from anygpu.store.reports import MainMetric, MetricPoint

_WORDS = re.compile(r"mAP|m?IoU|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
VALIDATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev", "holdout"})
TRAINING = frozenset({"train", "training", "tr"})
LOSSES = frozenset(
    {"loss", "nll", "perplexity", "ppl", "rmse", "mse", "mae", "logloss", "cer", "wer", "err", "error"}
)
# Scores for which more is better, in the order of preference.
SCORES: tuple[str, ...] = (
    *("map", "accuracy", "acc", "top", "auc", "auroc", "f", "miou", "iou", "dice", "bleu", "rouge", "ndcg"),
    *("psnr", "ssim", "r", "precision", "recall", "reward", "score"),
)
NUMBERED = frozenset({"f", "r", "top"})  # scores only with a number, such as f1, r2 and top1
# Settings and costs of a training, which nobody looks at first.
RARELY_SHOWN = frozenset(
    {
        "lr",
        "learning",
        "rate",
        "epoch",
        "step",
        "time",
        "seconds",
        "speed",
        "throughput",
        "memory",
        "mem",
        "grad",
        "norm",
    }
    | {"momentum", "samples", "tokens", "it", "eta", "scale", "loss_scale"}
)


def update_main_metric(current: MainMetric | None, points: Sequence[MetricPoint]) -> MainMetric | None:
    """Return the main metric after more points. It changes when a better one is reported for the first time."""
    names = [name for name in dict.fromkeys(point.name for point in points) if len(name) <= MAX_NAME_LENGTH]
    if not names:
        return current
    best = min(names, key=metric_rank)
    if current is None or metric_rank(best) < metric_rank(current.name):
        current = MainMetric(name=best)
    return _extend(current, [point for point in points if point.name == current.name])


@lru_cache(maxsize=2048)
def metric_rank(name: str) -> tuple[int, int]:
    """Return how soon a person would look at a metric; lower is sooner."""
    words = [word.lower() for word in _WORDS.findall(name)]
    score = _score_rank(words)
    is_validation, is_training = not VALIDATION.isdisjoint(words), not TRAINING.isdisjoint(words)
    if RARELY_SHOWN & set(words):
        return 9, 0
    if score is not None:
        return (0 if is_validation else 4 if is_training else 1), score
    if LOSSES.isdisjoint(words):
        return 8, 0
    return (2 if is_validation else 3), 0


def _score_rank(words: list[str]) -> int | None:
    """Return the rank of the score that these words name; None if they name none."""
    ranks = [
        SCORES.index(word)
        for word, following in zip_longest(words, words[1:], fillvalue="")
        if word in SCORES and (word not in NUMBERED or following.isdigit())
    ]
    return min(ranks, default=None)


def _extend(metric: MainMetric, points: Iterable[MetricPoint]) -> MainMetric:
    means, total, count, width = list(metric.means), metric.partial_sum, metric.partial_count, metric.width
    last = (metric.value, metric.step)
    for point in points:
        last = (point.value, point.step)
        if not math.isfinite(point.value):
            continue
        total, count = total + point.value, count + 1
        if count == width:
            means.append(_shorten(total / count))
            total, count = 0.0, 0
        if len(means) == MainMetric.MAX_POINTS:
            means = [_shorten((a + b) / 2) for a, b in zip(means[::2], means[1::2], strict=True)]
            width *= 2
    value, step = last
    return replace(
        metric,
        value=value,
        step=step,
        means=tuple(means),
        partial_sum=total,
        partial_count=count,
        width=width,
    )


def spark_of(metric: MainMetric) -> list[float]:
    """Return the curve of a metric in at most `MAX_POINTS` values."""
    rest = (_shorten(metric.partial_sum / metric.partial_count),) if metric.partial_count else ()
    return [*metric.means, *rest][-MainMetric.MAX_POINTS :]


def to_fields(metric: MainMetric) -> dict[str, Any]:
    """Return a main metric as JSON data."""
    return {
        "name": metric.name,
        "value": metric.value,
        "step": metric.step,
        "means": list(metric.means),
        "rest": [metric.partial_sum, metric.partial_count],
        "width": metric.width,
    }


def from_fields(data: Mapping[str, Any]) -> MainMetric:
    """Return the main metric that `to_fields` wrote."""
    partial_sum, partial_count = data["rest"]
    return MainMetric(
        name=data["name"],
        value=float(data["value"]),
        step=data["step"],
        means=tuple(data["means"]),
        partial_sum=partial_sum,
        partial_count=partial_count,
        width=data["width"],
    )


def _shorten(value: float) -> float:
    return float(f"{value:.6g}")
