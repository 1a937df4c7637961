"""`torch-classifier`: sorts images into classes, with a small network of ours or any of torchvision and timm."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers import data
from anygpu.trainers.config import Accepts
from anygpu.trainers.contract import Trainer
from anygpu.trainers.errors import BadConfig, BadDataset, Finding
from anygpu.trainers.result import Export
from anygpu.trainers.torch import device, exports, models, schedules, state
from anygpu.trainers.torch.images import Augmentation, Images
from anygpu.trainers.torch.loading import InOrder, loader
from anygpu.trainers.torch.sampling import Batches
from anygpu.trainers.torch.scores import Scores, class_weights

AUGMENTATION = ("augment", "flip", "crop", "rotate", "jitter")
TRAINING = (
    "freeze",
    "label_smoothing",
    "class_weights",
    "weight_decay",
    "momentum",
    "warmup_steps",
    "step_epochs",
)
TASK = "image-classification"


class TorchClassifier(Trainer):
    name = "torch-classifier"
    extra = "torch"
    needs = ("torch", "PIL", "safetensors", "onnx", "onnxruntime")
    licence = "BSD-3-Clause"
    goal = ("accuracy", "max")
    accepts = Accepts(
        tasks=(TASK,),
        options=frozenset({*AUGMENTATION, *TRAINING, "gamma", "threads", "deterministic"}),
        optimizers=schedules.OPTIMIZERS,
        schedulers=schedules.SCHEDULERS,
        exports=("onnx", "torchscript", "safetensors"),
        defaults={"model": models.SMALL, "task": TASK, "optimizer": "adamw", "scheduler": "cosine"},
    )

    # -- data and model ---------------------------------------------------------------------------------------

    def prepare_dataset(self) -> None:
        if self.dataset_path is None:
            raise BadConfig(
                "dataset_path: name a folder (or archive) of images, with one folder for each class"
            )
        root = data.opened(self.dataset_path)
        config = self.config
        self.dataset = data.load(root, task=TASK, val_fraction=config.val_fraction, seed=config.seed)
        self.data_hash = self.dataset.sha256
        if len(self.dataset.classes) < 2:
            raise BadDataset(
                [Finding(self.dataset_path, "has fewer than two classes; there is nothing to tell apart")]
            )
        self.size = config.image_size or (64 if config.model == models.SMALL else 224)
        self.train_images = self._images("train", Augmentation.of(config.options))
        self.val_images = self._images("val", None)
        self.train_ids = [item.id for item in self.dataset.splits["train"]]

    def create_model(self) -> None:
        config = self.config
        device.prepare(
            threads=config.option("threads", 0), deterministic=config.option("deterministic", False)
        )
        state.seed_everything(config.seed)
        self.device = device.chosen(config.device)
        network, loaded = models.create(config.model, len(self.dataset.classes), config.weights)
        if config.option("freeze", False):
            models.freeze(network, loaded)
        self.model = models.Normalised(network).to(self.device)
        self.loss = self._create_loss()
        self._create_optimizer()
        self._create_loaders()

    def _create_loss(self) -> Any:
        labels = [label for _, label in self.train_images.items]
        weights = class_weights(self.config.option("class_weights"), labels, len(self.dataset.classes))
        smoothing = self.config.option("label_smoothing", 0.0)
        return torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=smoothing).to(self.device)

    def _create_optimizer(self) -> None:
        config = self.config
        self.rate = config.learning_rate or schedules.USUAL_RATE[config.optimizer]
        self.optimizer = schedules.optimizer(
            config.optimizer,
            [each for each in self.model.parameters() if each.requires_grad],
            self.rate,
            decay=config.option("weight_decay", 1e-4),
            momentum=config.option("momentum", 0.9),
        )
        self.scaler = device.scaler(self.device, config.amp)

    def _create_loaders(self) -> None:
        config = self.config
        # A last batch of one image would leave batch normalisation nothing to average.
        self.batches = Batches(len(self.train_images), config.batch_size, config.seed, drop_last=True)
        self.steps_per_epoch = self.batches.steps_per_epoch
        self.train_loader = loader(self.train_images, self.batches, config.workers, self.device)
        val_batches = InOrder(len(self.val_images), config.batch_size, config.seed)
        self.val_loader = loader(self.val_images, val_batches, config.workers, self.device)
        self.schedule = schedules.schedule(
            config.scheduler,
            self.steps_per_epoch * config.epochs,
            warmup=config.option("warmup_steps", 0),
            every=config.option("step_epochs", 0) * self.steps_per_epoch,
            gamma=config.option("gamma", 0.1),
        )

    # -- epochs -----------------------------------------------------------------------------------------------

    def train_epoch(self, epoch: int) -> Mapping[str, float]:
        models.train_mode(self.model)
        self.batches.start(epoch, self.progress.step_in_epoch)
        totals = self.progress.totals
        for images, labels, indices in self._batches():
            rate = self.rate * self.schedule(self.progress.step)
            loss = self._step(images, labels, rate)
            totals["loss"] = totals.get("loss", 0.0) + loss
            self.progress.saw(self.train_ids[index] for index in indices.tolist())
            self.step_done({"loss": loss, "learning_rate": rate}, steps_per_epoch=self.steps_per_epoch)
        return {"loss": totals["loss"] / self.steps_per_epoch}

    def _batches(self) -> Iterator[Any]:
        """Nothing is loaded for an epoch whose every step was taken before a resume."""
        return iter(self.train_loader) if len(self.batches) else iter(())

    def _step(self, images: Any, labels: Any, rate: float) -> float:
        schedules.set_rate(self.optimizer, rate)
        self.optimizer.zero_grad(set_to_none=True)
        with device.autocast(self.device, self.config.amp):
            loss = self.loss(self.model(images.to(self.device)), labels.to(self.device))
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return float(loss.detach())

    def validate(self, epoch: int) -> Mapping[str, float]:
        self.model.eval()
        scores, total = Scores(self.dataset.classes), 0.0
        with torch.no_grad():
            for images, labels, _ in self.val_loader:
                labels = labels.to(self.device)
                logits = self.model(images.to(self.device))
                total += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
                scores.add(logits, labels)
        return {"val_loss": total / len(self.val_images), **scores.metrics()}

    # -- keeping ----------------------------------------------------------------------------------------------

    def _parts(self) -> dict[str, state.Stateful]:
        return {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def save_checkpoint(self, directory: Path) -> None:
        state.save(directory, self._parts())

    def load_checkpoint(self, directory: Path) -> None:
        state.load(directory, self._parts())

    def save_weights(self, directory: Path, stem: str) -> Path:
        return exports.save_weights(self.model.network, directory / f"{stem}.safetensors", self._about())

    def load_weights(self, path: Path) -> None:
        exports.load_weights(self.model.network, path)

    def export_model(self, format: str, directory: Path) -> Export:
        """Takes images of 0 to 1, in RGB; answers one number for each class, the largest for the likeliest."""
        model = copy.deepcopy(self.model).cpu().eval()
        example = torch.stack([self.val_images[0, index][0] for index in range(min(2, len(self.val_images)))])
        if format == "onnx":
            path = directory / "model.onnx"
            return exports.to_onnx(model, example, path, inputs="images", output="logits", free={0: "batch"})
        if format == "torchscript":
            return exports.to_torchscript(model, example, directory / "model.torchscript")
        return exports.to_safetensors(
            model, example, directory / "model.safetensors", about=self._about(), part="network"
        )

    def _about(self) -> dict[str, str]:
        """What somebody who finds only the file needs to use it."""
        return {
            "model": self.config.model,
            "classes": json.dumps(self.dataset.classes),
            "image_size": str(self.size),
            "mean": json.dumps(models.MEAN),
            "spread": json.dumps(models.SPREAD),
        }

    # -- data -------------------------------------------------------------------------------------------------

    def _images(self, split: str, augmentation: Augmentation | None) -> Images:
        items = [(item.image, item.label) for item in self.dataset.splits[split] if item.label is not None]
        return Images(items, self.size, self.config.seed, augmentation)
