"""What an agent is told to run for a trainer's job, here and elsewhere."""

import json
from typing import Any

from anygpu.control.agents.assignment import build_assignment
from anygpu.control.policy import ControlPolicy
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching, JobSubmitted
from anygpu.spec.load import from_mapping

TABULAR: dict[str, Any] = {"trainer": "tabular", "config": {"target": "species"}}


def order(backend: str, organisation: str = "lab", **spec: Any) -> dict[str, Any]:
    launching = AttemptLaunching(
        attempt=1, name="anygpu-job-1", offer=Offer(backend=backend), ticket_sha256=""
    )
    events = [JobSubmitted(spec=from_mapping(spec)), launching]
    history = [
        Recorded(
            organisation=organisation, project="p", position=n, job_id="job", at_ms=n * 1000, event=event
        )
        for n, event in enumerate(events, 1)
    ]
    view = fold(history)
    assert view is not None
    return build_assignment(view, view.attempts[0], ControlPolicy(), secrets={}, archive=None, resume=None)


def names(work: dict[str, Any]) -> set[str]:
    return {line.partition(">")[0].partition("<")[0] for line in work["requirements"]}


def test_the_trainers_module_is_run_with_its_settings() -> None:
    argv = order("local", **TABULAR)["argv"]
    assert argv[:4] == ["python", "-m", "anygpu.trainers", "tabular"]
    assert json.loads(argv[4]) == {"target": "species"}


def test_a_trainer_uses_all_gpus_of_the_job() -> None:
    two: dict[str, Any] = {"resources": {"gpu": 2}}
    work = order("local", trainer="nanogpt", **two)
    assert work["argv"][5:] == ["--processes", "2"]
    assert work["checkpoint"]["world_size"] == 2
    assert order("local", trainer="nanogpt", resources={"gpu": 1})["argv"][5:] == []
    assert order("local", trainer="./mine.py:Mine", **two)["argv"][5:] == []  # it may start processes itself


def test_elsewhere_the_framework_is_installed_and_here_the_servers_own_is_used() -> None:
    assert order("local", **TABULAR)["requirements"] == []
    assert {"scikit-learn", "skl2onnx", "onnxruntime"} <= names(order("cloud", **TABULAR))
    boosted = order("cloud", trainer="tabular", config={"target": "y", "model": "xgboost"})
    assert {"scikit-learn", "xgboost", "onnxmltools"} <= names(boosted)


def test_a_job_that_says_what_there_is_gets_nothing_else() -> None:
    assert order("cloud", **TABULAR, requirements=["scikit-learn==1.6"])["requirements"] == [
        "scikit-learn==1.6"
    ]
    for said in ({"python": "/opt/conda/bin/python"}, {"image": "lab/tables:3"}):
        assert order("cloud", **TABULAR, **said)["requirements"] == []
    assert order("cloud", trainer="./mine.py:Mine")["requirements"] == []


def test_trackers_are_told_by_the_trainer() -> None:
    tracking = order("local", **TABULAR, track={"tensorboard": True, "tags": ["a"]})["env"]["ANYGPU_TRACK"]
    assert json.loads(tracking) == {"tensorboard": True, "tags": ["a"]}
    assert order("local", **TABULAR)["env"] == {}


def test_elsewhere_the_trackers_that_are_named_are_installed_too() -> None:
    tracked = order("cloud", **TABULAR, track={"mlflow": True, "tensorboard": True})
    plain = order("cloud", **TABULAR)
    more = {line.partition(">")[0] for line in tracked["requirements"]} - {
        line.partition(">")[0] for line in plain["requirements"]
    }
    assert any(line.startswith("mlflow") for line in more)
    assert not any(line.startswith("wandb") for line in more)


def test_only_jobs_of_the_servers_organisation_on_its_machine_run_in_place() -> None:
    job: dict[str, Any] = {"script": "../x/train.py", "workdir": {"path": "/home/me"}}
    here = order("local", organisation="local", **job)
    assert (here["directory"], here["argv"]) == ("/home/me", ["python", "../x/train.py"])
    assert "directory" not in order("local", organisation="lab", **job)
    assert "directory" not in order("box", organisation="local", **job)
    copied: dict[str, Any] = {"script": "train.py", "workdir": {"path": "/home/me", "archive": "0" * 64}}
    assert "directory" not in order("local", organisation="local", **copied)
