"""Settings of the detection trainers are checked where none of their frameworks is installed."""

import sys
from typing import Any

import pytest

from anygpu.trainers import BadConfig, TrainingConfig, find
from anygpu.trainers.yolo import arguments
from anygpu.trainers.yolo import models as names


def configured(trainer: str, **settings: Any) -> TrainingConfig:
    return find(trainer).parse_settings(settings)


@pytest.mark.parametrize(
    ("spelled", "task", "name", "start"),
    [
        ("", "", "yolo11n", "yolo11n.yaml"),
        ("yolov11n", "", "yolo11n", "yolo11n.yaml"),
        ("YOLO11n", "", "yolo11n", "yolo11n.yaml"),
        ("yolo-v8s", "", "yolov8s", "yolov8s.yaml"),
        ("yolo8s.yaml", "", "yolov8s", "yolov8s.yaml"),
        ("yolov9c", "", "yolov9c", "yolov9c.yaml"),
        ("yolo10b", "", "yolov10b", "yolov10b.yaml"),
        ("yolov12m", "", "yolo12m", "yolo12m.yaml"),
        ("yolov26x", "", "yolo26x", "yolo26x.yaml"),
        ("yolo26", "", "yolo26n", "yolo26n.yaml"),
        ("yolo11n.pt", "", "yolo11n", "yolo11n.pt"),
        ("yolo11n-seg", "", "yolo11n-seg", "yolo11n-seg.yaml"),
        ("yolov8n", "instance-segmentation", "yolov8n-seg", "yolov8n-seg.yaml"),
        ("yolo26n.pt", "pose-estimation", "yolo26n-pose", "yolo26n-pose.pt"),
        ("", "image-classification", "yolo11n-cls", "yolo11n-cls.yaml"),
    ],
)
def test_a_model_is_known_by_all_its_spellings(spelled: str, task: str, name: str, start: str) -> None:
    model = names.choose_model(spelled, "", task)
    assert (model.name, model.start) == (name, start)


@pytest.mark.parametrize(("spelled", "short"), names.TASKS.items())
def test_a_task_is_known_by_its_long_name_too(spelled: str, short: str) -> None:
    assert names.choose_model("yolo11n", "", spelled).task == short


@pytest.mark.parametrize(
    ("model", "task", "said"),
    [
        ("yolo13n", "", "did you mean 'yolo1"),
        ("yolo11q", "", "yolo11 has no size 'q'; its sizes are n, s, m, l, x"),
        ("yollo11n", "", "did you mean 'yolo11n'?"),
        ("yolov10n", "segment", "yolov10n has no version for 'segment'"),
        ("yolo11n-seg", "pose", "'yolo11n-seg' is a model for 'segment', but task is 'pose'"),
        ("resnet18", "", "there is no model 'resnet18'"),
    ],
)
def test_a_model_there_is_not_names_the_nearest(model: str, task: str, said: str) -> None:
    with pytest.raises(BadConfig, match=r"^model: ") as caught:
        configured("yolo", model=model, task=task)
    assert said in str(caught.value)


def test_weights_of_ones_own_go_with_a_model() -> None:
    assert names.choose_model("yolo11n", "mine/best.pt", "").start == "mine/best.pt"


def test_ultralytics_arguments_are_passed_by_their_own_names() -> None:
    config = configured("ultralytics", imgsz=320, batch=4, lr0=0.02, mosaic=0.0, close_mosaic=3, cos_lr=True)
    assert (config.image_size, config.batch_size, config.learning_rate) == (320, 4, 0.02)
    assert config.options == {"mosaic": 0.0, "close_mosaic": 3, "cos_lr": True}


def test_an_argument_ultralytics_does_not_have_names_the_nearest() -> None:
    with pytest.raises(BadConfig, match="did you mean 'close_mosaic'"):
        configured("yolo", closed_mosaic=3)


def test_what_could_not_be_resumed_is_refused() -> None:
    with pytest.raises(BadConfig, match="distill_model: trainer 'yolo' has no such setting"):
        configured("yolo", distill_model="yolo26x.pt")


def test_ultralytics_is_told_the_universal_settings_under_its_names(tmp_path: Any) -> None:
    config = configured(
        "yolo",
        epochs=7,
        batch_size=4,
        image_size=320,
        learning_rate=0.02,
        scheduler="cosine",
        seed=3,
        device="cpu",
    )
    told = arguments.overrides(
        config, model="yolo11n.yaml", task="detect", data=tmp_path / "d.yaml", home=tmp_path
    )
    expected = {
        "epochs": 7, "batch": 4, "imgsz": 320, "lr0": 0.02, "cos_lr": True, "seed": 3, "device": "cpu", "amp": False,
        "optimizer": "SGD", "project": str(tmp_path),
    }  # fmt: skip
    assert {name: told[name] for name in expected} == expected


def test_a_learning_rate_is_never_passed_over_for_an_automatic_one(tmp_path: Any) -> None:
    kwargs = {"model": "m", "task": "detect", "data": tmp_path, "home": tmp_path}
    assert "optimizer" not in arguments.overrides(configured("yolo"), **kwargs)
    assert arguments.overrides(configured("yolo", lr=0.1), **kwargs)["optimizer"] == "SGD"
    assert (
        arguments.overrides(configured("yolo", lr=0.1, optimizer="adamw"), **kwargs)["optimizer"] == "adamw"
    )


def test_several_devices_are_refused() -> None:
    with pytest.raises(BadConfig, match="this trainer uses one"):
        configured("yolo", device="0,1")


@pytest.mark.parametrize("spelled", ["rtdetr-r18", "RT-DETR-R18", "rtdetr_r18vd", "rt-detr"])
def test_rt_detr_is_known_by_its_spellings(spelled: str) -> None:
    from anygpu.trainers.rtdetr.models import normalize_name

    assert normalize_name(spelled) == "rtdetr-r18"


def test_a_size_rt_detr_does_not_have_names_the_nearest() -> None:
    with pytest.raises(BadConfig, match="did you mean 'rtdetrv2-r50'"):
        configured("rt-detr", model="rtdetrv2-r55")


@pytest.mark.parametrize("trainer", ["rtdetr", "rfdetr"])
def test_an_image_size_that_does_not_fit_names_those_that_do(trainer: str) -> None:
    with pytest.raises(BadConfig, match="600 is not a multiple of 32; use 576 or 608"):
        configured(trainer, image_size=600)


@pytest.mark.parametrize("trainer", ["rtdetr", "rfdetr"])
def test_an_option_out_of_bounds_is_said(trainer: str) -> None:
    with pytest.raises(BadConfig, match="flip: 2 is not a number from 0 to 1"):
        configured(trainer, flip=2)


@pytest.mark.parametrize("spelled", ["rfdetr-nano", "RF-DETR-N", "rf_detr_nano", "rfdetr"])
def test_rf_detr_is_known_by_its_spellings(spelled: str) -> None:
    from anygpu.trainers.rfdetr.models import normalize_name

    assert normalize_name(spelled) == "rfdetr-nano"


@pytest.mark.parametrize("size", ["xlarge", "2xlarge", "xl"])
def test_a_size_under_a_restrictive_licence_is_refused_until_it_is_accepted(size: str) -> None:
    with pytest.raises(BadConfig, match=r"PML-1\.0.*accept_pml_licence: true"):
        configured("rf-detr", model=f"rfdetr-{size}")
    assert configured("rf-detr", model=f"rfdetr-{size}", accept_pml_licence=True).model.startswith("rfdetr")


def test_every_trainer_says_its_licence() -> None:
    assert find("yolo").licence == "AGPL-3.0"
    assert find("rtdetr").licence == "Apache-2.0"
    assert "PML-1.0" in find("rfdetr").licence


def test_nothing_of_this_needed_a_framework() -> None:
    for trainer in ("yolo", "rtdetr", "rfdetr"):
        configured(trainer)
    assert not {"torch", "ultralytics", "transformers", "rfdetr"} & set(sys.modules)
