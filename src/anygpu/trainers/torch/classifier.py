"""The `torch-classifier` trainer: image classification with a small CNN or a torchvision or timm model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anygpu.trainers import data
from anygpu.trainers.config import Accepts, TrainingConfig
from anygpu.trainers.contract import PlannerHints
from anygpu.trainers.errors import BadConfig, BadDataset, Finding
from anygpu.trainers.torch import settings
from anygpu.trainers.torch.trainer import TorchTrainer

if TYPE_CHECKING:
    from anygpu.trainers.torch.classification import ClassificationLearner

TASK = "image-classification"


class TorchClassifier(TorchTrainer):
    name = "torch-classifier"
    title = "Image classifier"
    description = "Classifies images with a small CNN or a torchvision or timm model."
    extra = "torch"
    needs = ("torch", "PIL", "safetensors", "onnx", "onnxruntime")
    dataset_format = "a folder or archive of images, with one folder for each class"
    licence = "BSD-3-Clause"
    goal = ("accuracy", "max")
    options = settings.CLASSIFIER
    known_models = (settings.SMALL, "resnet18", "resnet50", "efficientnet_b0", "convnext_tiny", "vit_b_16")
    accepts = Accepts(
        tasks=(TASK,),
        options=frozenset(settings.CLASSIFIER),
        optimizers=settings.OPTIMIZERS,
        schedulers=settings.SCHEDULERS,
        exports=("onnx", "torchscript", "safetensors"),
        defaults={"model": settings.SMALL, "task": TASK, "optimizer": "adamw", "scheduler": "cosine"},
    )
    planner_hints = PlannerHints(
        framework="torch",
        default_model=settings.SMALL,
        parameters={settings.SMALL: 100_000},
        requirements=("torch",),
    )

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        super().check(config)
        settings.check_class_weights(config.option("class_weights"))
        if config.option("freeze") and not config.weights:
            raise BadConfig("freeze: needs pretrained weights; set `weights`, or remove freeze")
        if config.model == settings.SMALL and (config.image_size or settings.SMALLEST) < settings.SMALLEST:
            raise BadConfig(
                f"image_size: the model {settings.SMALL} halves the image four times, so the size is too small; "
                f"set at least {settings.SMALLEST}"
            )

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        read(config, path)

    def prepare_dataset(self) -> None:
        self.dataset = read(self.config, self.require_dataset())
        self.data_hash = self.dataset.sha256

    def create_learner(self) -> ClassificationLearner:
        from anygpu.trainers.torch.classification import ClassificationLearner

        return ClassificationLearner(
            self.config, settings.read(self.options, self.config.options), self.dataset
        )


def read(config: TrainingConfig, path: Path) -> data.Dataset:
    dataset = data.load(
        data.open_dataset(path), task=TASK, val_fraction=config.val_fraction, seed=config.seed
    )
    if len(dataset.classes) < 2:
        raise BadDataset([Finding(path, "has fewer than two classes; add images of another class")])
    return dataset
