"""Log metrics to MLflow, on a tracking server or in a directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anygpu.trainers.trackers.tracking import FAILED, FINISHED, STOPPED, TrackedPoint, TrackedRun

TAG = "anygpu.run"
STATUS = {FINISHED: "FINISHED", FAILED: "FAILED", STOPPED: "KILLED"}
AT_ONCE = 900  # metrics per request; MLflow servers accept at most 1000
LONGEST_PARAMETER = 500


class Mlflow:
    """MLflow tracker. A resumed training finds its run by a tag and sends only steps that MLflow does not have."""

    name = "mlflow"

    def __init__(self, place: str, run: TrackedRun) -> None:
        # By default MLflow retries for minutes. An unreachable server must not delay the end of a training.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        from mlflow import entities, tracking

        self._entities, self._tracking, self._run = entities, tracking, run
        self._place = _address(place or os.environ.get("MLFLOW_TRACKING_URI", ""), run.output)
        self._id = ""
        self._last_steps: dict[str, int] = {}  # last step of each metric already on the server

    def start(self) -> None:
        self._client = self._tracking.MlflowClient(tracking_uri=self._place)
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or self._run.trainer)
        runs = self._client.search_runs([experiment], filter_string=f"tags.`{TAG}` = '{self._run.key}'")
        self._id = self._resume_run(runs[0]) if runs else self._create_run(experiment)

    def _experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        return str(experiment.experiment_id if experiment else self._client.create_experiment(name))

    def _create_run(self, experiment: str) -> str:
        run = self._run
        tags = {TAG: run.key, **dict.fromkeys(run.tags, "true")}
        made = str(self._client.create_run(experiment, run_name=run.name, tags=tags).info.run_id)
        parameters = [
            self._entities.Param(name, str(value)[:LONGEST_PARAMETER]) for name, value in run.settings.items()
        ]
        self._client.log_batch(made, params=parameters)
        return made

    def _resume_run(self, run: Any) -> str:
        identity = str(run.info.run_id)
        self._client.update_run(identity, status="RUNNING")
        for name in run.data.metrics:
            history = self._client.get_metric_history(identity, name)
            self._last_steps[name] = max((each.step for each in history), default=-1)
        return identity

    def log(self, points: Sequence[TrackedPoint]) -> None:
        new = [
            self._entities.Metric(name, number, int(point.at_s * 1000), point.step)
            for point in points
            for name, number in point.metrics.items()
            if point.step > self._last_steps.get(name, -1)
        ]
        for at in range(0, len(new), AT_ONCE):
            self._client.log_batch(self._id, metrics=new[at : at + AT_ONCE])

    def end(self, status: str) -> None:
        self._client.set_terminated(self._id, STATUS[status])

    def files(self) -> Sequence[Path]:
        return ()


def _address(place: str, output: Path) -> str:
    """Return the tracking URI: `place` if it is a URL, otherwise a directory as an absolute path.

    For a directory, MLflow's file store must be enabled by an environment variable, which is set here.
    """
    if "://" in place or place == "databricks":
        return place
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return str(Path(place or output / "mlruns").absolute())
