from typing import Any

from anygpu.sdk import Status
from anygpu.sdk.status import fraction_of


def job(**parts: Any) -> dict[str, Any]:
    return {"id": "j", "name": "n", "status": "running", "phase": "training", "backend": "local", **parts}


def test_progress_is_a_percentage_and_cost_is_dollars() -> None:
    status = Status(job_id="j").with_job(job(progress={"fraction": 0.4567}, cost_microusd=1_250_000))
    assert status.progress == 45.67
    assert f"${status.cost:.2f}" == "$1.25"


def test_a_backend_change_is_reported_once_with_the_previous_backend() -> None:
    first = Status(job_id="j").with_job(job())
    moved = first.without_news().with_job(job(backend="modal"))
    later = moved.without_news().with_job(job(backend="modal"))
    assert not first.backend_changed
    assert (moved.backend_changed, moved.previous_backend, moved.backend) == (True, "local", "modal")
    assert (later.backend_changed, later.previous_backend) == (False, "local")


def test_missing_progress_values_keep_the_previous_ones() -> None:
    status = Status(job_id="j").with_progress({"fraction": 0.5, "step": 10, "steps": 20}, {"cpu": 0.3})
    later = status.with_progress({"step": 11}, {})
    assert (later.progress, later.step, later.steps, later.telemetry) == (50.0, 11, 20, {"cpu": 0.3})


def test_the_newest_point_of_each_metric_is_used() -> None:
    status = Status(job_id="j").with_points(
        [["loss", 1, 0.0, 0.9], ["acc", 1, 0.0, 0.1], ["loss", 2, 0.0, 0.8]]
    )
    assert status.metrics == {"loss": 0.8, "acc": 0.1}


def test_only_terminal_states_are_done() -> None:
    assert [Status(job_id="j", status=word).done for word in ("queued", "running", "failed")] == [
        False,
        False,
        True,
    ]


def test_the_fraction_is_derived_from_steps_or_epochs() -> None:
    assert fraction_of({"fraction": 0.2, "epoch": 3, "epochs": 4}) == 0.2
    assert fraction_of({"fraction": None, "epoch": 3, "epochs": 4}) == 0.75
    assert fraction_of({"step": 5, "steps": 4}) == 1.0
    assert fraction_of({"epoch": 3}) is None
