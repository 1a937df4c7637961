"""Images are loaded and augmented in the same way in every process."""

from pathlib import Path

import torch
from PIL import Image, ImageDraw
from tests.trainers.pictures import draw_folder

from anygpu.trainers.torch.images import Augmentation, AugmentedImages, loader
from anygpu.trainers.torch.sampling import BatchSampler

CPU = torch.device("cpu")


def test_a_sample_looks_the_same_whichever_process_loads_it(tmp_path: Path) -> None:
    root = draw_folder(tmp_path, each=4)
    items = [(path, 0) for path in sorted(root.rglob("*.png"))]
    images = AugmentedImages(items, 16, 0, Augmentation(flip=0.5, crop=0.5, rotate=20, jitter=0.3))
    batches = BatchSampler(len(items), 4, seed=0)
    alone, together = (loader(images, batches, workers, CPU) for workers in (0, 2))
    for epoch in range(2):
        batches.start(epoch, 1)
        for one, other in zip(list(alone), list(together), strict=True):
            assert all(torch.equal(left, right) for left, right in zip(one, other, strict=True))
    first, second = images[0, 3][0], images[1, 3][0]
    assert not torch.equal(first, second)


def test_a_wide_image_is_cut_and_not_squeezed(tmp_path: Path) -> None:
    image = Image.new("RGB", (120, 40))
    ImageDraw.Draw(image).rectangle((0, 0, 119, 39), fill=(250, 0, 0))
    for x in range(0, 120, 10):
        ImageDraw.Draw(image).line((x, 0, x, 39), fill=(0, 0, 250), width=5)
    image.save(tmp_path / "wide.png")
    for augmentation in (None, Augmentation(flip=0, crop=1, rotate=0, jitter=0)):
        blue = AugmentedImages([(tmp_path / "wide.png", 0)], 40, 0, augmentation)[0, 0][0][2].mean(0)
        stripes = int((torch.diff((blue > 0.5).int()) == 1).sum())
        assert 3 <= stripes <= 4  # of the twelve: a third of the width is seen, at its true scale


def test_starting_a_loader_draws_nothing_from_the_training_s_chance(tmp_path: Path) -> None:
    images = AugmentedImages([(path, 0) for path in draw_folder(tmp_path, each=2).rglob("*.png")], 8, 0, None)
    before = torch.get_rng_state()
    list(loader(images, BatchSampler(6, 2, seed=0), 0, CPU))
    assert torch.equal(torch.get_rng_state(), before)
