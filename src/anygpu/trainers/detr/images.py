"""Load images with boxes, resized to a square. Each sample has its own random generator for augmentation."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from PIL import Image, ImageEnhance, ImageOps

from anygpu.trainers.data import Item
from anygpu.trainers.torch.images import as_tensor
from anygpu.trainers.torch.sampling import Place, chance_of

Target = dict[str, Any]  # labels (n), boxes (n, 4) as centre and size, 0 to 1


class BoxedImages(torch.utils.data.Dataset[tuple[Any, Target, int]]):  # type: ignore[misc]
    """PyTorch dataset of (image, target, index). Its keys are (epoch, sample index).

    Without `options`, images are not augmented.
    """

    def __init__(
        self, items: Sequence[Item], size: int, seed: int, options: Mapping[str, Any] | None = None
    ) -> None:
        self.items, self.size, self.seed = items, size, seed
        self.options = options if options and options["augment"] else None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Place) -> tuple[Any, Target, int]:
        item = self.items[place[1]]
        with Image.open(item.image) as opened:
            image = ImageOps.exif_transpose(opened).convert("RGB")
        image = image.resize((self.size, self.size), Image.Resampling.BILINEAR)
        target = target_of(item)
        if self.options is not None:
            image, target = _augment(image, target, self.options, chance_of(self.seed, place))
        return as_tensor(image), target, place[1]


def target_of(item: Item) -> Target:
    boxes = [(box.x, box.y, box.w, box.h) for box in item.boxes]
    return {
        "labels": torch.tensor([box.class_index for box in item.boxes], dtype=torch.int64),
        "boxes": torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
    }


def collate(samples: Sequence[tuple[Any, Target, int]]) -> tuple[Any, list[Target], list[int]]:
    images, targets, indices = zip(*samples, strict=True)
    return torch.stack(images), list(targets), list(indices)


def corners(boxes: Any) -> Any:
    """Convert boxes from (centre, size) to (left, top, right, bottom)."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def _augment(
    image: Image.Image, target: Target, options: Mapping[str, Any], chance: random.Random
) -> tuple[Image.Image, Target]:
    if chance.random() < options["flip"]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        boxes = target["boxes"].clone()
        boxes[:, 0] = 1 - boxes[:, 0]
        target = {**target, "boxes": boxes}
    for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        if options["jitter"]:
            image = kind(image).enhance(1 + chance.uniform(-options["jitter"], options["jitter"]))
    return image, target
