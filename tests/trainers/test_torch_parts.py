"""What an exact resume is made of: order, chance, learning rates and states that come back as they were."""

import random
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image, ImageDraw
from tests.trainers.pictures import draw_folder

from anygpu.trainers.torch import learner, state
from anygpu.trainers.torch.classification import ClassificationScores
from anygpu.trainers.torch.images import Augmentation, AugmentedImages, loader
from anygpu.trainers.torch.sampling import BatchSampler

CPU = torch.device("cpu")


def test_batches_from_the_middle_of_an_epoch_are_those_of_the_whole_epoch() -> None:
    batches = BatchSampler(50, 8, seed=3)
    batches.start(2, 0)
    whole = list(batches)
    assert sorted(index for batch in whole for _, index in batch) == list(range(50))
    for step in range(7):
        batches.start(2, step)
        assert (list(batches), len(batches)) == (whole[step:], 7 - step)


def test_each_epoch_and_each_seed_has_an_order_of_its_own() -> None:
    orders = set()
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        batches = BatchSampler(50, 50, seed)
        batches.start(epoch, 0)
        orders.add(tuple(index for _, index in next(iter(batches))))
    assert len(orders) == 3


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


def test_every_source_of_chance_comes_back(tmp_path: Path) -> None:
    state.seed_everything(5)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.rand(4, 3)).sum().backward()
    optimizer.step()
    state.save(tmp_path, {"model": model, "optimizer": optimizer})
    drawn = [random.random(), float(numpy.random.rand()), float(torch.rand(1))]
    state.seed_everything(6)
    other = torch.nn.Linear(3, 1)
    other_optimizer = torch.optim.AdamW(other.parameters())
    state.load(tmp_path, {"model": other, "optimizer": other_optimizer})
    assert [random.random(), float(numpy.random.rand()), float(torch.rand(1))] == drawn
    assert torch.equal(other.weight, model.weight)
    moments = [
        each.state[each.param_groups[0]["params"][0]]["exp_avg"] for each in (optimizer, other_optimizer)
    ]
    assert torch.equal(*moments)
    assert [path.name for path in tmp_path.iterdir()] == [state.FILE]


def test_a_state_that_holds_code_is_refused(tmp_path: Path) -> None:
    torch.save({"parts": {}, "chance": random.Random(0), "threads": 1}, tmp_path / state.FILE)
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        state.load(tmp_path, {})


@pytest.mark.parametrize(
    ("name", "start", "middle", "end"),
    [
        ("cosine", 1.0, 0.5, 0.0),
        ("step", 1.0, 0.1, 0.01),
        ("onecycle", 0.04, 0.811, 0.0001),
        ("none", 1, 1, 1),
    ],
)
def test_the_learning_rate_is_a_function_of_the_step(
    name: str, start: float, middle: float, end: float
) -> None:
    rate = learner.schedule(name, 300)
    assert [rate(0), rate(150), rate(299)] == pytest.approx([start, middle, end], abs=1e-3)


def test_a_warm_up_rises_to_the_whole_rate_and_cosine_ends_at_its_floor() -> None:
    rate = learner.schedule("cosine", 100, warmup=10, floor=0.1)
    assert [rate(0), rate(4), rate(10), rate(100)] == pytest.approx([0.1, 0.5, 1.0, 0.1])


def test_scores_are_those_counted_by_hand() -> None:
    scores = ClassificationScores(("a", "b", "c"))
    scores.add(torch.eye(3)[[0, 0, 1, 1, 2]], torch.tensor([0, 1, 1, 1, 0]))
    found = scores.metrics()
    assert (found["accuracy"], found["f1/a"], found["f1/b"], found["f1/c"]) == pytest.approx(
        (0.6, 0.5, 0.8, 0)
    )
    assert "top5_accuracy" not in found


def test_top_five_is_counted_where_there_are_more_than_five_classes() -> None:
    scores = ClassificationScores(tuple("abcdefg"))
    logits = torch.arange(7.0).repeat(2, 1)
    scores.add(logits, torch.tensor([2, 1]))  # the third of seven from below is among the top five
    assert scores.metrics()["top5_accuracy"] == 0.5
