"""Train a detection transformer, with clipped gradients, averaged weights and COCO metrics."""

from __future__ import annotations

import copy
import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.data import Dataset
from anygpu.trainers.detr import exports
from anygpu.trainers.detr.images import BoxedImages, collate, corners
from anygpu.trainers.detr.metrics import ImageDetections, ImageTruth, mean_average_precision
from anygpu.trainers.result import Export
from anygpu.trainers.torch import learner as schedules
from anygpu.trainers.torch.images import FixedOrder, one_thread
from anygpu.trainers.torch.learner import TorchLearner
from anygpu.trainers.torch.ranks import current_ranks
from anygpu.trainers.torch.sampling import BatchSampler
from anygpu.trainers.torch.state import Stateful


class WeightAverage:
    """Exponential moving average of the weights. Its decay rises from 0 to `decay` in the first steps."""

    SETTLING_STEPS = 2000

    def __init__(self, model: Any, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.updates = decay, 0

    def update(self, model: Any) -> None:
        self.updates += 1
        keep = self.decay * (1 - math.exp(-self.updates / self.SETTLING_STEPS))
        theirs = model.state_dict()
        with torch.no_grad():
            for name, own in self.model.state_dict().items():
                if own.is_floating_point():
                    own.mul_(keep).add_(theirs[name].detach(), alpha=1 - keep)
                else:
                    own.copy_(theirs[name])

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


MOST_FOUND = 300


class DetectionLearner(TorchLearner):
    """Trains a detection transformer.

    The network takes images with values from 0 to 1 and returns logits and boxes (centre and size, 0 to 1).
    """

    def __init__(
        self, config: TrainingConfig, options: Mapping[str, Any], dataset: Dataset, *, size: int
    ) -> None:
        self.classes, self.size = dataset.classes, size
        self.train_images = BoxedImages(dataset.splits["train"], size, config.seed, options)
        self.val_images = BoxedImages(dataset.splits["val"], size, config.seed)
        self.order = BatchSampler(
            len(self.train_images), config.batch_size, config.seed, drop_last=True, ranks=current_ranks()
        )
        super().__init__(config, options, self.order.steps_per_epoch)
        self.average = WeightAverage(self.model, options["ema"]) if options["ema"] else None
        every = FixedOrder(len(self.val_images), config.batch_size, config.seed)
        self.train_loader = self._loader(self.train_images, self.order)
        self.val_loader = self._loader(self.val_images, every)

    @abstractmethod
    def losses(self, images: Any, targets: Sequence[Mapping[str, Any]]) -> Any:
        """Return the total training loss of a batch."""

    @abstractmethod
    def answer(self, network: Any, images: Any) -> tuple[Any, Any]:
        """Run `network` on `images`, and return logits (batch, queries, classes) and boxes (batch, queries, 4)."""

    @abstractmethod
    def is_backbone(self, name: str) -> bool: ...

    # -- training steps ----------------------------------------------------------------------------

    def batches(self, epoch: int, step: int) -> Iterator[tuple[Sequence[Any], Sequence[int | str]]]:
        self.order.start(epoch, step)
        for at, (images, targets, _) in enumerate(self.train_loader, start=step):
            indices = self.order.indices(epoch, at)
            yield [(images, targets)], [self.train_images.items[index].id for index in indices]

    def loss(self, part: Any) -> Any:
        images, targets = part
        moved = [{name: each.to(self.device) for name, each in target.items()} for target in targets]
        return self.losses(images.to(self.device, non_blocking=True), moved)

    def _step(self, parts: Sequence[Any], rate: float) -> float:
        loss = super()._step(parts, rate)
        if self.average is not None:
            self.average.update(self.model)
        return loss

    def create_optimizer(self) -> Any:
        """Create the optimiser, with one parameter group per learning rate and weight decay.

        A pretrained backbone gets a lower learning rate. Norms and biases get no weight decay.
        """
        groups: dict[tuple[float, float], list[Any]] = {}
        for name, each in self.model.named_parameters():
            if each.requires_grad:
                groups.setdefault(self._treatment(name, each), []).append(each)
        made = [{"params": each, "part": part, "decay": decay} for (part, decay), each in groups.items()]
        optimizer = schedules.optimizer(
            self.config.optimizer, made, self.rate, momentum=self.options["momentum"]
        )
        for group in optimizer.param_groups:
            group["weight_decay"] = group["decay"]
        optimizer.register_step_pre_hook(_scale_rates)
        return optimizer

    def _treatment(self, name: str, parameter: Any) -> tuple[float, float]:
        slow = bool(self.config.weights) and self.is_backbone(name)
        part = self.options["backbone_rate"] if slow else 1.0
        return part, 0.0 if parameter.ndim < 2 else self.options["weight_decay"]

    # -- validation --------------------------------------------------------------------------------

    def validate(self) -> Mapping[str, float]:
        network = self.network().eval()
        detections: list[ImageDetections] = []
        with torch.no_grad():
            for images, _, _ in self.val_loader:
                logits, boxes = self.answer(network, images.to(self.device))
                detections += [_detections(*each) for each in zip(logits.cpu(), boxes.cpu(), strict=True)]
        return mean_average_precision(detections, [_truth(item) for item in self.val_images.items])

    # -- saving and exporting ----------------------------------------------------------------------

    def network(self) -> Any:
        return self.model if self.average is None else self.average.model

    def _parts(self) -> dict[str, Stateful]:
        return {**super()._parts(), **({} if self.average is None else {"average": self.average})}

    def export(self, format: str, directory: Path) -> Export:
        network, path = copy.deepcopy(self.network()).cpu().eval(), directory / f"model.{format}"
        images = torch.stack([self.val_images[0, index][0] for index in range(min(2, len(self.val_images)))])
        if format == "safetensors":
            return exports.to_safetensors(network, self.answer, images, path, self.about())
        return exports.to_onnx(self.export_module(network), images[:1], path)

    def export_module(self, network: Any) -> Any:
        """Return the module to export as ONNX."""
        return exports.DetectionOutputs(network, self.answer)

    def about(self) -> Mapping[str, str]:
        return {
            "model": self.config.model,
            "classes": json.dumps(self.classes),
            "image_size": str(self.size),
        }

    def _loader(self, images: BoxedImages, batches: BatchSampler) -> Any:
        workers = self.config.workers
        return torch.utils.data.DataLoader(
            images,
            batch_sampler=batches,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=self.device.type == "cuda",
            worker_init_fn=one_thread,
            collate_fn=collate,
            generator=torch.Generator(),
        )


def _scale_rates(optimizer: Any, *_: Any) -> None:
    """Multiply the learning rate of each parameter group by the group's factor, before an optimiser step.

    It is called after the training loop has set the same rate for all groups.
    """
    for group in optimizer.param_groups:
        group["lr"] *= group["part"]


def _detections(logits: Any, boxes: Any) -> ImageDetections:
    scores = logits.float().sigmoid()
    best = scores.flatten().topk(min(MOST_FOUND, scores.numel()))
    query, label = best.indices // scores.shape[1], best.indices % scores.shape[1]
    return ImageDetections(corners(boxes.float())[query].numpy(), best.values.numpy(), label.numpy())


def _truth(item: Any) -> ImageTruth:
    return ImageTruth([box.corners for box in item.boxes], [box.class_index for box in item.boxes])
