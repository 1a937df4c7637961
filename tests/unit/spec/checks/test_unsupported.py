"""What cannot be kept is refused, with what to do instead."""

from typing import Any

import pytest

from anygpu.control.jobs import require_supported
from anygpu.errors import InvalidSpec
from anygpu.events.offers import Offer
from anygpu.plan.offers.fit import unfit_reason
from anygpu.spec.load import from_mapping


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({"dataset": "coco@2"}, "dataset"),
        ({"notify": ["https://example.org/hook"]}, "notify"),
        ({"track": {"wandb": True}}, "track.wandb"),
        ({"track": {"mlflow": "http://127.0.0.1:5000"}}, "track.mlflow"),
        ({"track": {"tensorboard": True}}, "track.tensorboard"),
        ({"track": {"tags": ["a"]}}, "track.tags"),
        ({"dataset": "s3://bucket/flowers"}, "dataset.url"),
        ({"dataset": "gs://bucket/flowers"}, "dataset.url"),
        ({"dataset": "az://bucket/flowers"}, "dataset.url"),
        ({"dataset": "hf://user/flowers"}, "dataset.url"),
        ({"image": "python:3.11", "python": "3.11"}, "python"),
        ({"placement": {"profile": "lab", "allowed": ["lab"]}}, "placement.profile"),
        ({"placement": {"profile": "lab", "fallbacks": ["aws"]}}, "placement.profile"),
        ({"placement": {"profile": "lab", "forbidden": ["lab"]}}, "placement.profile"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_place(asked: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_supported(from_mapping({"script": "train.py", **asked}), may_run_in_place=True)
    assert [problem.place for problem in refused.value.problems] == [place]
    assert refused.value.problems[0].suggestion


@pytest.mark.parametrize(
    ("asked", "own", "place", "said"),
    [
        ({"workdir": "/home/me"}, False, "workdir.path", "only the server's own organisation"),
        ({"workdir": "src"}, True, "workdir.path", "is not an absolute path"),
        ({"workdir": {"snapshot": True}}, True, "workdir.snapshot", "no files were uploaded"),
        ({"script": "../a.py"}, True, "script", "leads outside"),
        ({"script": "/a.py"}, True, "script", "absolute"),
        ({"script": r"C:\a.py"}, True, "script", "absolute"),
        ({"script": r"a\..\..\b.py"}, True, "script", "leads outside"),
        (
            {"script": "../a.py", "workdir": {"path": "/a", "archive": "0" * 64}},
            True,
            "script",
            "leads outside",
        ),
    ],
)
def test_files_that_the_job_would_not_find_are_refused(
    asked: dict[str, Any], own: bool, place: str, said: str
) -> None:
    with pytest.raises(InvalidSpec, match=said) as refused:
        require_supported(from_mapping({"script": "train.py", **asked}), may_run_in_place=own)
    assert [problem.place for problem in refused.value.problems] == [place]


@pytest.mark.parametrize("script", ["../x/train.py", "/x/train.py", "train.py"])
def test_a_job_in_place_may_run_any_script(script: str) -> None:
    spec = from_mapping({"script": script, "workdir": "/home/me"})
    require_supported(spec, may_run_in_place=True)
    assert spec.in_place == "/home/me"


@pytest.mark.parametrize(
    "asked",
    [{}, {"dataset": "/data"}, {"dataset": "https://example.org/a.zip"}, {"placement": {"profile": "lab"}}],
)
def test_what_can_be_kept_is_not_refused(asked: dict[str, Any]) -> None:
    spec = from_mapping({"script": "train.py", **asked})
    require_supported(spec, may_run_in_place=True)
    assert spec.script == "train.py"


@pytest.mark.parametrize(
    ("asked", "place", "said"),
    [
        (
            {"trainer": "tabular", "config": {"target": "y"}},
            "dataset",
            "needs a dataset; give a CSV or Parquet file",
        ),
        ({"trainer": "tabular", "dataset": "/d.csv"}, "config.target", "the column to predict"),
        (
            {"trainer": "yolo", "dataset": "/d", "config": {"epoch": 3}},
            "config.epoch",
            "did you mean 'epochs'?",
        ),
        ({"trainer": "yolp"}, "trainer", "there is no trainer 'yolp'; did you mean 'yolo'?"),
        (
            {"trainer": "resnet50", "dataset": "/d", "config": {"epochs": 0}},
            "config.epochs",
            "0 is not a whole number",
        ),
    ],
)
def test_a_trainers_settings_are_checked_before_anything_starts(
    asked: dict[str, Any], place: str, said: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_supported(from_mapping(asked), may_run_in_place=True)
    assert [problem.place for problem in refused.value.problems] == [place]
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"trainer": "resnet50", "dataset": "/d", "config": {"epochs": 3}},
        {"trainer": "yolo", "dataset": "/d", "track": {"tensorboard": True, "tags": ["a"]}},
        {"trainer": "./mine.py:Mine", "config": {"anything": 1}},
        {"trainer": "somebodys", "requirements": ["somebodys-trainers"]},
    ],
)
def test_a_trainer_that_can_run_is_not_refused(asked: dict[str, Any]) -> None:
    spec = from_mapping(asked)
    require_supported(spec, may_run_in_place=True)
    assert spec.kind == "trainer"


def test_an_image_does_not_fit_where_no_container_runs() -> None:
    spec = from_mapping({"script": "train.py", "image": "pytorch/pytorch:2"})
    assert unfit_reason(spec, Offer(backend="local")) == "does not run container images"
    assert unfit_reason(spec, Offer(backend="cluster", containers=True)) == ""


def test_a_dedicated_job_does_not_fit_where_other_jobs_run() -> None:
    spec = from_mapping({"script": "train.py", "placement": {"dedicated": True}})
    assert "requires a dedicated machine" in unfit_reason(spec, Offer(backend="lab", shared=True))
    assert unfit_reason(spec, Offer(backend="aws")) == ""


def test_a_profile_allows_its_backend_only() -> None:
    spec = from_mapping({"script": "train.py", "placement": {"profile": "lab"}})
    assert (
        unfit_reason(spec, Offer(backend="aws"))
        == "not among the allowed backends (placement.allowed or --on)"
    )
    assert unfit_reason(spec, Offer(backend="lab")) == ""


def test_a_trainer_does_not_fit_where_its_modules_are_missing() -> None:
    offer = Offer(backend="local", missing_modules=("ultralytics", "wandb"))
    yolo = {"trainer": "yolo", "dataset": "/d"}
    assert "pip install 'anygpu[yolo]'" in unfit_reason(from_mapping(yolo), offer)
    tracked = {"trainer": "ridge", "dataset": "/d", "config": {"target": "y"}, "track": {"wandb": True}}
    assert "pip install 'anygpu[wandb]'" in unfit_reason(from_mapping(tracked), offer)
    for own in ({"requirements": ["ultralytics"]}, {"python": "3.12"}, {"setup": "pip install ultralytics"}):
        assert unfit_reason(from_mapping({**yolo, **own}), offer) == ""
    assert unfit_reason(from_mapping({"script": "train.py"}), offer) == ""
