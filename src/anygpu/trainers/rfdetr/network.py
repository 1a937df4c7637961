"""Adapt RF-DETR to the training loop of the detection transformers."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from anygpu.trainers.detr.exports import DetectionOutputs
from anygpu.trainers.detr.learner import DetectionLearner
from anygpu.trainers.rfdetr import models

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class RfDetrLearner(DetectionLearner):
    def create_model(self) -> Any:
        network, self.criterion = models.create(self.config, len(self.classes), self.size, self.options)
        return network

    def losses(self, images: Any, targets: Sequence[Mapping[str, Any]]) -> Any:
        self.criterion.to(self.device).train()
        losses = self.criterion(self.model(_nested_tensor(normalize(images)), targets), targets)
        weights = self.criterion.weight_dict
        return sum(loss * weights[name] for name, loss in losses.items() if name in weights)

    def answer(self, network: Any, images: Any) -> tuple[Any, Any]:
        output = network(_nested_tensor(normalize(images)))
        return self._dataset_class_logits(output["pred_logits"]), output["pred_boxes"]

    def is_backbone(self, name: str) -> bool:
        return name.startswith("backbone.")

    def export_module(self, network: Any) -> Any:
        """Return RF-DETR's export variant of the network, which takes a plain tensor."""
        graph = copy.deepcopy(network)
        graph.export()
        return DetectionOutputs(graph, self._exported_answer)

    def _exported_answer(self, graph: Any, images: Any) -> tuple[Any, Any]:
        boxes, logits = graph(normalize(images))[:2]
        return self._dataset_class_logits(logits), boxes

    def _dataset_class_logits(self, logits: Any) -> Any:
        """Return the logits of the dataset's classes, without the extra class that RF-DETR adds."""
        return logits[..., : len(self.classes)]


def normalize(images: Any) -> Any:
    mean, spread = (torch.tensor(each, device=images.device).view(1, 3, 1, 1) for each in (MEAN, SPREAD))
    return (images - mean) / spread


def _nested_tensor(images: Any) -> Any:
    """Wrap images in the NestedTensor that RF-DETR expects, with a mask that says no pixel is padding."""
    from rfdetr.utilities.tensors import NestedTensor

    padding = torch.zeros(images.shape[0], *images.shape[2:], dtype=torch.bool, device=images.device)
    return NestedTensor(images, padding)
