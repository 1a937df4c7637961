"""Load images as augmented tensors. A sample's augmentation does not depend on the number of processes."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageEnhance, ImageOps

from anygpu.trainers.torch.sampling import BatchSampler, Place, chance_of


def loader(dataset: Any, batches: Any, workers: int, device: torch.device) -> Any:
    return torch.utils.data.DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
        worker_init_fn=one_thread,
        # An iterator draws a seed when it starts. A generator of its own leaves torch's global random state
        # unchanged, so a resumed run stays identical.
        generator=torch.Generator(),
    )


def one_thread(_worker: int) -> None:
    torch.set_num_threads(1)


class FixedOrder(BatchSampler):
    """Batch sampler for validation: yields every sample once, in the order of the dataset."""

    def __iter__(self) -> Any:
        for step in range(self.steps_per_epoch):
            yield [(0, index) for index in self._batch(range(self.samples), step)]


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Random changes applied to a training image."""

    flip: float  # probability of a horizontal flip
    crop: float  # smallest area of a crop, as a fraction of the largest square in the image
    rotate: float  # largest rotation in either direction, in degrees
    jitter: float  # largest relative change of brightness, contrast and colour

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Augmentation | None:
        """Create the augmentation from a trainer's options, or return None if the option `augment` is off."""
        if not options["augment"]:
            return None
        return cls(**{each.name: options[each.name] for each in fields(cls)})

    def apply(self, image: Image.Image, size: int, chance: random.Random) -> Image.Image:
        image = image.resize((size, size), Image.Resampling.BILINEAR, box=_crop(image, self.crop, chance))
        if chance.random() < self.flip:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if self.rotate:
            image = image.rotate(chance.uniform(-self.rotate, self.rotate), Image.Resampling.BILINEAR)
        for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            if self.jitter:
                image = kind(image).enhance(1 + chance.uniform(-self.jitter, self.jitter))
        return image


class AugmentedImages(torch.utils.data.Dataset[tuple[Any, int, int]]):  # type: ignore[misc]
    """PyTorch dataset of (image, label, index). Its keys are (epoch, sample index).

    Without `augmentation`, images are only cropped to the central square and resized.
    """

    def __init__(
        self, items: Sequence[tuple[Path, int]], size: int, seed: int, augmentation: Augmentation | None
    ) -> None:
        self.items, self.size, self.seed, self.augmentation = items, size, seed, augmentation

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Place) -> tuple[Any, int, int]:
        path, label = self.items[place[1]]
        with Image.open(path) as opened:
            image = ImageOps.exif_transpose(opened).convert("RGB")  # apply the camera's orientation
        if self.augmentation is None:
            image = resize_to_square(image, self.size)
        else:
            image = self.augmentation.apply(image, self.size, chance_of(self.seed, place))
        return as_tensor(image), label, place[1]


def resize_to_square(image: Image.Image, size: int) -> Image.Image:
    """Crop the central square of an image and resize it."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    return image.resize((size, size), Image.Resampling.BILINEAR, box=(left, top, left + side, top + side))


def as_tensor(image: Image.Image) -> Any:
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.view(image.height, image.width, 3).permute(2, 0, 1).float().div(255)


def _crop(image: Image.Image, smallest: float, chance: random.Random) -> tuple[float, float, float, float]:
    """Return a random, nearly square crop box, at most as large as the image's largest square."""
    side = min(image.size) * math.sqrt(chance.uniform(smallest, 1))
    slant = math.sqrt(chance.uniform(3 / 4, 4 / 3)) if smallest < 1 else 1.0
    width, height = min(image.width, side * slant), min(image.height, side / slant)
    left, top = chance.uniform(0, image.width - width), chance.uniform(0, image.height - height)
    return left, top, left + width, top + height
