"""Adapt RT-DETR to the training loop of the detection transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.trainers.detr.learner import DetectionLearner
from anygpu.trainers.rtdetr import models


class RtDetrLearner(DetectionLearner):
    def create_model(self) -> Any:
        config = self.config
        return models.create(
            models.normalize_name(config.model), self.classes, config.weights, self.options["queries"]
        )

    def losses(self, images: Any, targets: Sequence[Mapping[str, Any]]) -> Any:
        """Return the loss that transformers computes. It covers all decoder layers and the denoising queries."""
        labels = [{"class_labels": each["labels"], "boxes": each["boxes"]} for each in targets]
        return self.model(pixel_values=images, labels=labels).loss

    def answer(self, network: Any, images: Any) -> tuple[Any, Any]:
        output = network(pixel_values=images)
        return output.logits, output.pred_boxes

    def is_backbone(self, name: str) -> bool:
        return ".backbone." in name
