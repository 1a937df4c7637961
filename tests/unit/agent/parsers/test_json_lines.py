"""Progress as JSON lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_a_json_line_gives_metrics_and_progress(readings_of: Callable[..., Any]) -> None:
    line = (
        '{"type":"progress","data":{"epoch":5,"total_epochs":10,"progress":0.5,'
        '"metrics":{"loss":0.234,"mAP":0.85},"status":"training"}}'
    )
    assert readings_of(line + "\n") == [
        ("points", [("loss", 5, 1.0, 0.234), ("mAP", 5, 1.0, 0.85)]),
        ("progress", {"fraction": 0.5, "epoch": 5, "epochs": 10, "message": "training"}),
    ]


def test_json_metrics_that_are_not_numbers_are_ignored(points_of: Callable[..., Any]) -> None:
    line = '{"type":"progress","data":{"step":7,"metrics":{"a":true,"b":null,"c":"x","d":[1],"loss":"0.5"}}}'
    assert points_of(line) == [("loss", 7, 0.5)]


def test_numbers_beside_the_position_are_metrics_if_there_is_no_dictionary_of_metrics(
    readings_of: Callable[..., Any],
) -> None:
    line = '{"type":"progress","data":{"epoch":2,"total_epochs":4,"loss":0.5,"metrics/mAP50(B)":1,"time":3,"a":"x"}}'
    assert readings_of(line + "\n") == [
        ("points", [("loss", 2, 1.0, 0.5), ("metrics/mAP50(B)", 2, 1.0, 1.0)]),
        ("progress", {"fraction": 0.5, "epoch": 2, "epochs": 4}),
    ]
