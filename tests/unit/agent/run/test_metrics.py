"""Metrics and progress reported by a script, and the steps they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anygpu.agent.checkpoints.steps import StepHistory
from anygpu.agent.run.metrics import ScriptReports


def test_invalid_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_bytes(
        b'{"m": {"a": 1}, "t": 5, "s": 3}\ngarbage\n[]\n{"m": {"a": "x"}, "t": 1}\n{"m": {"b": NaN}, "t": 6}\n{"m"'
    )
    points = ScriptReports(str(path), StepHistory())
    found: list[Any] = []
    points.on_points = found.extend
    points.read()
    assert [point[:3] for point in found] == [("a", 3, 5.0), ("b", 1, 6.0)]
    assert points.malformed_lines == 3
    with path.open("ab") as file:
        file.write(b': {"a": 2}, "t": 7}\n')
    points.read()
    assert found[-1] == ("a", 4, 7.0, 2.0)


def test_progress_values_that_are_left_out_keep_their_last_value(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text('{"p": {"epoch": 1, "epochs": 9, "step": 10}}\n{"p": {"step": 11, "steps": 90}}\n')
    points = ScriptReports(str(path), StepHistory())
    told: list[Any] = []
    points.on_progress = told.append
    points.read()
    assert told[-1] == {"epoch": 1, "epochs": 9, "step": 11, "steps": 90}
