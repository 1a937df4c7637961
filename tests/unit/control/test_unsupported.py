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
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_place(asked: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_supported(from_mapping({"script": "train.py", **asked}))
    assert [problem.place for problem in refused.value.problems] == [place]
    assert refused.value.problems[0].suggestion


@pytest.mark.parametrize(
    "asked", [{}, {"dataset": "/data"}, {"dataset": "https://example.org/a.zip"}, {"track": {"tags": ["a"]}}]
)
def test_what_can_be_kept_is_not_refused(asked: dict[str, Any]) -> None:
    spec = from_mapping({"script": "train.py", **asked})
    require_supported(spec)
    assert spec.script == "train.py"


@pytest.mark.parametrize(
    ("asked", "place", "said"),
    [
        ({"trainer": "tabular"}, "config.target", "the name of the column to predict"),
        ({"trainer": "yolo", "config": {"epoch": 3}}, "config.epoch", "did you mean 'epochs'?"),
        ({"trainer": "yolp"}, "trainer", "there is no trainer 'yolp'; did you mean 'yolo'?"),
        ({"trainer": "resnet50", "config": {"epochs": 0}}, "config.epochs", "0 is not a whole number"),
    ],
)
def test_a_trainers_settings_are_checked_before_anything_starts(
    asked: dict[str, Any], place: str, said: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_supported(from_mapping(asked))
    assert [problem.place for problem in refused.value.problems] == [place]
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"trainer": "resnet50", "config": {"epochs": 3}},
        {"trainer": "yolo", "track": {"tensorboard": True}},
        {"trainer": "./mine.py:Mine", "config": {"anything": 1}},
        {"trainer": "somebodys", "requirements": ["somebodys-trainers"]},
    ],
)
def test_a_trainer_that_can_run_is_not_refused(asked: dict[str, Any]) -> None:
    spec = from_mapping(asked)
    require_supported(spec)
    assert spec.kind == "trainer"


def test_an_image_does_not_fit_where_no_container_runs() -> None:
    spec = from_mapping({"script": "train.py", "image": "pytorch/pytorch:2"})
    assert unfit_reason(spec, Offer(backend="local")) == "does not run container images"
    assert unfit_reason(spec, Offer(backend="cluster", containers=True)) == ""
