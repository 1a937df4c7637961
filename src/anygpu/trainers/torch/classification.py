"""Train an image classifier on augmented batches, and compute its accuracy and F1 on validation images."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.data import Dataset
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.result import Export
from anygpu.trainers.torch import exports, models
from anygpu.trainers.torch.images import Augmentation, AugmentedImages, FixedOrder, loader
from anygpu.trainers.torch.learner import TorchLearner
from anygpu.trainers.torch.ranks import current_ranks
from anygpu.trainers.torch.sampling import BatchSampler
from anygpu.trainers.torch.settings import SMALL

TOP = 5


class ClassificationScores:
    """Adds up a confusion matrix over batches, and computes accuracy and F1 from it."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = classes
        self._confusion = torch.zeros(len(classes), len(classes), dtype=torch.int64)
        self._in_top = 0

    def add(self, logits: Any, labels: Any) -> None:
        count = len(self._classes)
        places = labels.cpu() * count + logits.argmax(1).cpu()
        self._confusion += torch.bincount(places, minlength=count * count).view(count, count)
        if count > TOP:
            self._in_top += int((logits.topk(TOP).indices == labels[:, None]).any(1).sum())

    def metrics(self) -> dict[str, float]:
        confusion = self._confusion.double()
        total = max(1.0, float(confusion.sum()))
        f1 = _f1(confusion)
        top = {f"top{TOP}_accuracy": self._in_top / total} if len(self._classes) > TOP else {}
        each = {f"f1/{name}": value for name, value in zip(self._classes, f1, strict=True)}
        return {"accuracy": float(confusion.trace()) / total, **top, "f1": sum(f1) / len(f1), **each}


def _f1(confusion: Any) -> list[float]:
    right = confusion.diagonal()
    possible = confusion.sum(0) + confusion.sum(1)
    scores: list[float] = torch.where(possible > 0, 2 * right / possible.clamp(min=1), 0.0).tolist()
    return scores


def class_weights(wanted: Any, labels: Sequence[int], classes: int) -> Any:
    """Return the loss weight of each class, or None for an unweighted loss.

    `wanted` is "balanced" (weights inverse to class frequency), a list with one number per class, or None.
    """
    if wanted is None:
        return None
    if wanted == "balanced":
        counts = torch.bincount(torch.tensor(labels), minlength=classes).clamp(min=1)
        return len(labels) / (classes * counts)
    if isinstance(wanted, list | tuple) and len(wanted) == classes:
        return torch.tensor([float(each) for each in wanted])
    raise BadConfig(
        f"class_weights: {wanted!r} is not valid; set 'balanced', or {classes} numbers, one for each class"
    )


class ClassificationLearner(TorchLearner):
    def __init__(self, config: TrainingConfig, options: Mapping[str, Any], dataset: Dataset) -> None:
        self.classes = dataset.classes
        self.size = config.image_size or (64 if config.model == SMALL else 224)
        self.train_images = self._images(dataset, "train", config.seed, Augmentation.of(options))
        self.val_images = self._images(dataset, "val", config.seed, None)
        self.ids = [item.id for item in dataset.splits["train"]]
        # Batch normalisation fails on a last batch of one image, so drop incomplete batches.
        self.order = BatchSampler(
            len(self.train_images), config.batch_size, config.seed, drop_last=True, ranks=current_ranks()
        )
        super().__init__(config, options, self.order.steps_per_epoch)
        self._create_loaders()
        labels = [label for _, label in self.train_images.items]
        weights = class_weights(options["class_weights"], labels, len(self.classes))
        self.weights = None if weights is None else weights.to(self.device)

    def _images(
        self, dataset: Dataset, split: str, seed: int, augmentation: Augmentation | None
    ) -> AugmentedImages:
        items = [(item.image, item.label) for item in dataset.splits[split] if item.label is not None]
        return AugmentedImages(items, self.size, seed, augmentation)

    def create_model(self) -> Any:
        network, loaded = models.create(self.config.model, len(self.classes), self.config.weights)
        if self.options["freeze"]:
            models.freeze(network, loaded)
        return models.NormalizedModel(network)

    def _create_loaders(self) -> None:
        config = self.config
        self.train_loader = loader(self.train_images, self.order, config.workers, self.device)
        every = FixedOrder(len(self.val_images), config.batch_size, config.seed)
        self.val_loader = loader(self.val_images, every, config.workers, self.device)

    def network(self) -> Any:
        return self.model.network

    def mode_of_training(self) -> None:
        models.train_mode(self.model)

    def batches(self, epoch: int, step: int) -> Iterator[tuple[Sequence[Any], Sequence[int | str]]]:
        self.order.start(epoch, step)
        for at, (images, labels, _) in enumerate(self.train_loader, start=step):
            yield [(images, labels)], [self.ids[index] for index in self.order.indices(epoch, at)]

    def loss(self, part: Any) -> Any:
        images, labels = (each.to(self.device, non_blocking=True) for each in part)
        smoothing = self.options["label_smoothing"]
        return functional.cross_entropy(self.model(images), labels, self.weights, label_smoothing=smoothing)

    def validate(self) -> Mapping[str, float]:
        self.model.eval()
        scores, total = ClassificationScores(self.classes), 0.0
        with torch.no_grad():
            for images, labels, _ in self.val_loader:
                logits = self.model(images.to(self.device)).cpu()
                total += float(functional.cross_entropy(logits, labels, reduction="sum"))
                scores.add(logits, labels)
        return {"val_loss": total / len(self.val_images), **scores.metrics()}

    def export(self, format: str, directory: Path) -> Export:
        """Export the model. It takes RGB images with values from 0 to 1 and returns one logit per class."""
        model, path = copy.deepcopy(self.model).cpu().eval(), directory / f"model.{format}"
        example = torch.stack([self.val_images[0, index][0] for index in range(min(2, len(self.val_images)))])
        if format == "onnx":
            return exports.to_onnx(model, example, path, inputs="images", output="logits", free={0: "batch"})
        if format == "torchscript":
            return exports.to_torchscript(model, example, path)
        return exports.to_safetensors(model, example, path, part="network", about=self.about())

    def about(self) -> Mapping[str, str]:
        return {
            "model": self.config.model,
            "classes": json.dumps(self.classes),
            "image_size": str(self.size),
            "mean": json.dumps(models.MEAN),
            "spread": json.dumps(models.SPREAD),
        }
