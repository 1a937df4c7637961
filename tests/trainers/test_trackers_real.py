"""The trackers themselves read what was told them: one run however often a training was killed, each step once."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anygpu.testing.training_process import TrainingProcess
from anygpu.trainers import get_trainer

LINE = f"{Path(__file__).parents[1] / 'unit' / 'trainers' / 'line.py'}:Line"
EPOCHS, STEPS = 3, 60


@pytest.fixture(scope="module")
def killed_and_resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that all three listen to, killed in its second epoch."""
    output = tmp_path_factory.mktemp("tracked")
    places = {"mlflow": True, "wandb": "lines", "tensorboard": True, "tags": ["small"]}
    settings = {"epochs": EPOCHS, "checkpoint_every_s": 0}
    training = TrainingProcess(
        trainer=LINE, dataset=None, settings=settings, env={"ANYGPU_TRACK": json.dumps(places)}
    )
    training.run_until(output, 27)
    training.run(output, resume=True)
    return output


def test_tensorboard_sees_one_curve(killed_and_resumed: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(killed_and_resumed / "tensorboard")).Reload()
    assert [each.step for each in seen.Scalars("val_loss")] == [20, 40, 60]
    assert {each.step for each in seen.Scalars("loss")} == set(range(1, STEPS + 1))
    history = json.loads((killed_and_resumed / "result.json").read_text())["history"]
    assert seen.Scalars("val_loss")[-1].value == pytest.approx(history[-1]["val_loss"], rel=1e-6)


def test_mlflow_has_one_run_that_ended_well(
    killed_and_resumed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=str(killed_and_resumed / "mlruns"))
    experiment = client.get_experiment_by_name("line")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.data.params["epochs"], run.data.tags["small"]) == ("FINISHED", "3", "true")
    steps = [each.step for each in client.get_metric_history(run.info.run_id, "loss")]
    assert len(steps) == len(set(steps)) + EPOCHS  # an epoch's loss is told at its last step
    assert set(steps) == set(range(1, STEPS + 1))
    assert [each.step for each in client.get_metric_history(run.info.run_id, "val_loss")] == [20, 40, 60]


def test_weights_and_biases_keeps_both_attempts_offline_under_one_id(killed_and_resumed: Path) -> None:
    files = sorted((killed_and_resumed / "wandb").glob("offline-run-*/*.wandb"))
    kept = [list(records(file)) for file in files]
    runs = [each.run for found in kept for each in found if each.WhichOneof("record_type") == "run"]
    key = (killed_and_resumed / "tracked-run.txt").read_text()
    assert {(run.run_id, run.project, tuple(run.tags)) for run in runs} == {(key, "lines", ("small",))}
    told = [each.history for found in kept for each in found if each.WhichOneof("record_type") == "history"]
    assert {each.step.num for each in told} == set(range(1, STEPS + 1))


def records(path: Path) -> Iterator[Any]:
    """What a run left in its file: protocol buffers, in blocks of 32 KiB as LevelDB writes its log."""
    from wandb.proto import wandb_internal_pb2

    content, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def test_a_server_that_does_not_exist_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    result = get_trainer(LINE, output_dir=tmp_path, epochs=1, track={"mlflow": "http://127.0.0.1:9"}).train()
    assert result.epochs == 1
    assert capsys.readouterr().err.count("track.mlflow") == 1
