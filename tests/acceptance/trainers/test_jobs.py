"""A trainer's job from the command line to the model brought home, killed and stopped on the way."""

import json
import shutil
from pathlib import Path

import joblib
import pytest
from tests.acceptance.cli.conftest import Shell
from tests.unit.trainers.tabular.same import fingerprint

from anygpu.errors import InvalidSpec
from anygpu.sdk.platform import Platform

SETTINGS = ["--set", "target=species", "-c", "drop=price", "-c", "model=sgd", "-c", "batch_size=32"]
TABULAR = ["run", "--trainer", "tabular", "--dataset", "penguins.csv", *SETTINGS]
HERE = Path(__file__).parent


def test_a_table_is_trained_on_and_the_model_comes_home(anygpu: Shell) -> None:
    done = anygpu(*TABULAR, "--set", "epochs=4", "--name", "penguins")
    assert b"done after 4 epochs" in done.stdout + done.stderr
    files = {each["name"] for each in anygpu.json("fetch", "penguins", "--list")["files"]}
    assert {"best/model.joblib", "exports/model.onnx", "model-card.md", "result.json"} <= files
    assert not any("checkpoint" in name for name in files)
    [model] = anygpu.json("fetch", "penguins", "--model")["files"]
    assert model["path"].startswith("model_tabular_")
    found = joblib.load(anygpu.directory / model["path"]).predict([[39.0, 3000.0, "a", "m"]])
    assert found.tolist() == ["adelie"]
    shown = anygpu.json("show", "penguins")
    assert shown["progress"]["epoch"] == 4
    assert {"accuracy", "log_loss"} <= set(shown["metrics"])


def test_a_killed_trainer_of_ones_own_resumes_to_the_weights_of_an_uninterrupted_run(anygpu: Shell) -> None:
    shutil.copy(HERE / "mortal_trainer.py", anygpu.directory)
    own = ["run", "--trainer", "./mortal_trainer.py:Mortal", *TABULAR[3:]]
    settings = ["--set", "epochs=4", "-c", "checkpoint_every_s=0", "-c", "export=[]"]
    done = anygpu(*own, *settings, "-n", "killed")
    assert b"Resumed from the checkpoint of step" in done.stderr
    assert len(anygpu.json("show", "killed")["attempts"]) == 2
    anygpu(*TABULAR, *settings, "-n", "whole")
    for name in ("killed", "whole"):
        anygpu("fetch", name, "--to", name)
    for name in ("last.joblib", "best.joblib"):
        weights = [fingerprint(anygpu.directory / job / name) for job in ("killed", "whole")]
        assert weights[0] == weights[1]
    results = [
        json.loads((anygpu.directory / job / "result.json").read_text()) for job in ("killed", "whole")
    ]
    assert results[0]["history"] == results[1]["history"]
    assert results[0]["samples_sha256"] == results[1]["samples_sha256"]


@pytest.mark.extended
def test_a_job_out_of_time_has_saved_and_goes_on_when_resumed(anygpu: Shell) -> None:
    shutil.copy(HERE / "mortal_trainer.py", anygpu.directory)
    own = ["run", "--trainer", "mortal_trainer.py:Slow", *TABULAR[3:], "--set", "epochs=60", "-n", "slow"]
    anygpu(*own, "--timeout", "10s", "-c", "export=[]", code=None)
    ended = anygpu.json("show", "slow")
    assert ended["status"] == "failed"
    saved = ended["checkpoint"]["step"]
    assert saved > 0
    done = anygpu("resume", "slow", "--set", "limits.timeout=10m")
    assert b"done after 60 epochs" in done.stdout + done.stderr


def test_a_job_file_names_a_trainer_and_its_settings(anygpu: Shell) -> None:
    anygpu.write(
        "job.yaml",
        "trainer: tabular",
        "dataset: penguins.csv",
        "config:",
        "  target: price",
        "  model: ridge",
        "  epoch: 3",
    )
    done = anygpu("run", "job.yaml", code=65)
    assert (
        b"job.yaml:6 config.epoch: trainer 'tabular' has no such setting; did you mean 'epochs'?"
        in done.stderr
    )
    text = (anygpu.directory / "job.yaml").read_text()
    (anygpu.directory / "job.yaml").write_text(text.replace("epoch:", "epochs:"))
    done = anygpu("run", "job.yaml", "--set", "export=[]")
    assert b"r2" in done.stdout + done.stderr


def test_a_bad_table_is_refused_before_anything_is_sent_and_by_the_job_when_it_was(anygpu: Shell) -> None:
    (anygpu.directory / "bad.csv").write_text("a,species\n1,x\n2,y,3\n")
    bad = ["run", "--trainer", "tabular", "--dataset", "bad.csv", "--set", "target=species", "-n", "bad"]
    done = anygpu(*bad, code=65)
    assert b"bad.csv:3: the line has 3 values, but the first line has 2 columns" in done.stderr
    done = anygpu(*bad, "--no-check", code=2)
    assert b"bad.csv:3: the line has 3 values, but the first line has 2 columns" in done.stdout


def test_a_missing_framework_names_the_extra_and_no_job_exists(anygpu: Shell) -> None:
    xgboost = ["run", "--trainer", "xgboost", "--dataset", "penguins.csv", "--set", "target=species"]
    done = anygpu(*xgboost, "--name", "boosted", code=65)
    assert b"pip install 'anygpu[boosting]'" in done.stderr
    assert anygpu.json("ls", "--name", "boosted")["jobs"] == []


def test_the_server_refuses_what_the_command_would_have(
    anygpu: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(state=anygpu.environ["ANYGPU_STATE"])
    with pytest.raises(InvalidSpec, match=r"config.lerning_rate.*did you mean 'learning_rate'"):
        platform.client.submit({"trainer": "tabular", "config": {"target": "x", "lerning_rate": 1}})
    with pytest.raises(InvalidSpec, match="there is no trainer 'tabluar'; did you mean 'tabular'"):
        platform.client.submit({"trainer": "tabluar"})
    monkeypatch.chdir(anygpu.directory)
    job = platform.submit(
        trainer="tabular", dataset="penguins.csv", config={"target": "price", "model": "ridge", "export": []}
    )
    assert job.result()["status"] == "completed"
    platform.client.close()
