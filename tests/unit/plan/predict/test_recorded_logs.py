"""Step logs, ours or anybody's, are read and judged the same way."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from bench.accuracy import RECORDED, figures, first_steps, held_back, read
from bench.record_steps import least


def log(step_s: float = 1.0, steps: int = 60, **more: Any) -> dict[str, Any]:
    return {"steps": steps, "times_s": [*accumulate([step_s] * steps)], **more}


def test_a_file_is_one_run_or_many_and_its_name_is_the_workload(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(log()))
    (tmp_path / "many.json").write_text(json.dumps({"runs": [log(), log(2.0, total_s=125.0), log(steps=3)]}))
    (tmp_path / "listed.json").write_text(json.dumps([log(workload="mine")]))
    found = read(tmp_path)
    assert [each.workload for each in found] == ["mine", "many", "many", "one"]
    assert [each.total_s for each in found] == [60.0, 60.0, 125.0, 60.0]


def test_a_directory_without_a_log_says_how_one_is_written(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"docs/explanation/accuracy.md"):
        read(tmp_path)


def test_a_steady_run_is_met_and_one_alone_has_no_history(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(log()))
    logs = read(tmp_path)
    assert first_steps(logs)[0].time_error < 0.01
    assert held_back(logs) == []
    assert all(figure.met for figure in figures(logs))


def test_of_a_training_made_several_times_each_step_counts_as_its_least() -> None:
    slow_first = {"times_s": [2.0, 3.0], "total_s": 3.5}
    slow_last = {"times_s": [1.0, 3.0], "total_s": 3.25}
    assert least([slow_first, slow_last]) == {"times_s": [1.0, 2.0], "total_s": 2.25}


def test_what_is_published_is_from_at_least_forty_recorded_runs() -> None:
    logs = read(RECORDED)
    assert len(logs) >= 40
    assert len({each.workload for each in logs}) >= 10
    assert all(each.steps == len(each.times_s) for each in logs)
