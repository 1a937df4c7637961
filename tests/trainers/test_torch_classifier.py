"""torch-classifier learns what circles, crosses and squares are, and what it exports answers the same."""

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from safetensors import safe_open
from tests.trainers.pictures import CLASSES, draw_folder

from anygpu.trainers import AnyTrainer, BadConfig, BadDataset, TrainingResult, get_trainer
from anygpu.trainers.torch.models import NormalizedModel, small_cnn

SETTINGS = {"epochs": 6, "batch_size": 16, "image_size": 32, "threads": 1, "device": "cpu"}
BAR = 0.9  # one in three is chance


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_folder(tmp_path_factory.mktemp("pictures"), each=60)


def trainer(pictures: Path, output: Path, **settings: Any) -> AnyTrainer:
    return get_trainer(
        "torch-classifier", dataset_path=pictures, output_dir=output, **{**SETTINGS, **settings}
    )


@pytest.fixture(scope="module")
def trained(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingResult:
    output = tmp_path_factory.mktemp("trained")
    return trainer(pictures, output, export=["onnx", "torchscript", "safetensors"]).train()


def test_it_gets_better_and_passes_the_bar(trained: TrainingResult) -> None:
    assert trained.metrics["accuracy"] >= BAR
    assert trained.metrics["f1"] >= BAR
    assert min(trained.metrics[f"f1/{name}"] for name in CLASSES) >= 0.8
    assert trained.history[-1]["val_loss"] < 0.5 * trained.history[0]["val_loss"]


def test_every_export_is_compared_with_the_model_and_says_its_shapes(trained: TrainingResult) -> None:
    found = {each.format: each for each in trained.exports}
    assert set(found) == {"onnx", "torchscript", "safetensors"}
    assert all(each.difference is not None and each.difference <= 1e-4 for each in trained.exports)
    assert (found["onnx"].opset, found["onnx"].inputs) == (17, {"images": ("batch", 3, 32, 32)})


def test_somebody_with_the_weights_alone_can_use_them(trained: TrainingResult) -> None:
    assert trained.best is not None
    with safe_open(str(trained.best), framework="pt") as file:
        about = json.loads(file.metadata()["anygpu"])
        network = small_cnn(len(json.loads(about["classes"])))
        network.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mine = NormalizedModel(network).eval()(images)
    session = onnxruntime.InferenceSession(str(trained.exports[0].path), providers=["CPUExecutionProvider"])
    theirs = torch.from_numpy(session.run(None, {"images": images.numpy()})[0])
    assert torch.allclose(mine, theirs, atol=1e-4)


def test_a_torchvision_model_starts_from_weights_and_trains_only_its_head(
    pictures: Path, tmp_path: Path
) -> None:
    import torchvision

    torch.manual_seed(0)
    body = torchvision.models.get_model("shufflenet_v2_x0_5", num_classes=10).state_dict()
    torch.save(body, tmp_path / "body.pt")
    frozen = trainer(
        pictures,
        tmp_path / "out",
        model="shufflenet_v2_x0_5",
        weights=str(tmp_path / "body.pt"),
        freeze=True,
        epochs=1,
    )
    result = frozen.train()
    assert result.last is not None
    with safe_open(str(result.last), framework="pt") as file:
        kept = {name: torch.equal(file.get_tensor(name), body[name]) for name in body if "fc" not in name}
        assert file.get_tensor("fc.weight").shape[0] == len(CLASSES)
    assert all(kept.values())
    assert result.exports[0].difference is not None


def test_a_timm_model_is_found_by_its_name(pictures: Path, tmp_path: Path) -> None:
    result = trainer(pictures, tmp_path, model="test_resnet", epochs=1, export=["safetensors"]).train()
    assert result.exports[0].difference == 0.0


def test_mixed_precision_learns_too_and_training_ends_when_nothing_becomes_better(
    pictures: Path, tmp_path: Path
) -> None:
    settings = {"amp": True, "patience": 2, "epochs": 30, "scheduler": "onecycle", "optimizer": "sgd"}
    result = trainer(pictures, tmp_path, export=[], learning_rate=0.02, **settings).train()
    assert result.metrics["accuracy"] >= BAR
    assert result.epochs < 30


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"model": "resnet1888"},
            "model: 'resnet1888' is neither small-cnn nor a model of torchvision or timm",
        ),
        (
            {"model": "resnet18", "weights": "GOOD"},
            "weights: 'GOOD' is neither a file nor weights of torchvision; those for resnet18 are",
        ),
        ({"model": "resnet18", "weights": "DEFAULT"}, "'DEFAULT' cannot be downloaded"),
        ({"model": "resnet18.a1_in1k", "weights": "pretrained"}, "'pretrained' cannot be downloaded"),
        ({"device": "cuda"}, "torch cannot use cuda on this machine; set 'auto', which would use 'cpu'"),
        ({"device": "gpu"}, "device: 'gpu' is not a device; set auto, cpu, mps, cuda or cuda:<number>"),
        ({"class_weights": [1, 2]}, "set 'balanced', or 3 numbers"),
    ],
)
def test_a_setting_that_does_not_fit_is_told(
    pictures: Path, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadConfig, match=said):
        trainer(pictures, tmp_path, **settings).train()


def test_a_corrupt_image_is_told_before_training(tmp_path: Path) -> None:
    root = draw_folder(tmp_path / "pictures", each=4)
    (root / "circle" / "000.png").write_bytes(b"no image")
    with pytest.raises(BadDataset, match=r"circle/000\.png"):
        trainer(root, tmp_path / "out").train()
