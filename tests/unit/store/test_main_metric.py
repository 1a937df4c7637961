"""The main metric is the one a person would look at first."""

import pytest

from anygpu.store.main_metric import metric_rank, spark_of, update_main_metric
from anygpu.store.reports import MainMetric, MetricPoint

REPORTED = [
    (["lr", "loss", "val/accuracy"], "val/accuracy"),
    (["train/loss", "eval_loss", "learning_rate"], "eval_loss"),
    (["train_loss", "train_acc", "val_loss"], "val_loss"),
    (["box_loss", "metrics/mAP50(B)", "metrics/precision(B)", "val/box_loss"], "metrics/mAP50(B)"),
    (["loss", "valAcc"], "valAcc"),
    (["epoch", "eval_top1", "eval_loss"], "eval_top1"),
    (["loss", "test_auc"], "test_auc"),
    (["train-logloss", "valid-auc"], "valid-auc"),
    (["loss", "val_f1"], "val_f1"),
    (["learn", "RMSE"], "RMSE"),
    (["lr", "temperature"], "temperature"),
    (["grad_norm", "lr"], "grad_norm"),
    (["forward_time", "loss"], "loss"),
    (["val/perplexity", "train/loss"], "val/perplexity"),
    (["", "???"], ""),
]


@pytest.mark.parametrize(("names", "wanted"), REPORTED)
def test_the_metric_a_person_would_look_at_is_chosen(names: list[str], wanted: str) -> None:
    metric = update_main_metric(None, [MetricPoint(name, 1, 0.0, 1.0) for name in names])
    assert metric is not None
    assert metric.name == wanted


def test_a_better_metric_replaces_an_earlier_one_but_never_the_other_way() -> None:
    metric = update_main_metric(None, [MetricPoint("loss", 1, 0.0, 2.0)])
    metric = update_main_metric(metric, [MetricPoint("val_acc", 10, 0.0, 0.5)])
    metric = update_main_metric(metric, [MetricPoint("loss", 11, 0.0, 1.0)])
    assert metric is not None
    assert (metric.name, metric.value, spark_of(metric)) == ("val_acc", 0.5, [0.5])


def test_names_of_the_same_rank_keep_the_first() -> None:
    assert metric_rank("val/acc") == metric_rank("test/acc")
    metric = update_main_metric(None, [MetricPoint("test/acc", 1, 0.0, 0.1)])
    metric = update_main_metric(metric, [MetricPoint("val/acc", 1, 0.0, 0.2)])
    assert metric is not None
    assert metric.name == "test/acc"


def test_a_curve_has_at_most_32_points_and_the_mean_of_all() -> None:
    metric: MainMetric | None = None
    values = [float(n % 7) for n in range(10_000)]
    for start in range(0, len(values), 13):
        part = [MetricPoint("loss", n, 0.0, values[n]) for n in range(start, min(start + 13, len(values)))]
        metric = update_main_metric(metric, part)
        assert metric is not None
        assert len(spark_of(metric)) <= 32
    assert metric is not None
    assert sum(spark_of(metric)) / len(spark_of(metric)) == pytest.approx(3.0, abs=0.05)
