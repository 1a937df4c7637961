"""The automatic split: every sample in one half, each class in both, and nobody moves when others come."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as some
from tests.unit.trainers.data.drawn import image_folder, png, write

from anygpu.trainers import data
from anygpu.trainers.data.split import choose

samples = some.dictionaries(
    some.text("abcdefgh0123", min_size=1, max_size=8),
    some.lists(some.integers(0, 4), min_size=1, max_size=3, unique=True),
    min_size=2,
    max_size=80,
)
fractions = some.floats(0.05, 0.95)


@settings(max_examples=50)
@given(samples, fractions, some.integers(0, 9))
def test_both_halves_have_something_and_the_order_does_not_matter(
    given_samples: dict[str, list[int]], fraction: float, seed: int
) -> None:
    chosen = choose(given_samples, fraction, seed)
    assert chosen < set(given_samples)
    assert chosen
    assert choose(dict(reversed(given_samples.items())), fraction, seed) == chosen


@settings(max_examples=50)
@given(some.dictionaries(some.text(min_size=1), some.integers(0, 4), min_size=2, max_size=80), fractions)
def test_every_class_with_two_samples_is_in_both_halves(labels: dict[str, int], fraction: float) -> None:
    chosen = choose({key: [label] for key, label in labels.items()}, fraction, 0)
    for label in set(labels.values()):
        members = {key for key, each in labels.items() if each == label}
        assert len(members) == 1 or (members & chosen and members - chosen)


@settings(max_examples=30)
@given(some.integers(0, 99), some.integers(1, 300))
def test_nobody_moves_when_samples_are_added(seed: int, more: int) -> None:
    before = {f"a{number}": [number % 3] for number in range(150)}
    after = before | {f"b{number}": [number % 3] for number in range(more)}
    assert choose(before, 0.2, seed) == choose(after, 0.2, seed) & before.keys()


def test_each_class_is_validated_on_as_much_as_was_asked() -> None:
    labels = {f"{number}": [number % 4] for number in range(8_000)}
    chosen = choose(labels, 0.25, 0)
    shares = [sum(labels[key] == [label] for key in chosen) / 2_000 for label in range(4)]
    assert all(abs(share - 0.25) < 0.03 for share in shares)


def test_another_seed_is_another_split() -> None:
    labels = {f"{number}": [0] for number in range(100)}
    assert choose(labels, 0.2, 0) != choose(labels, 0.2, 1)


def test_images_keep_their_half_when_files_are_added_or_renamed(tmp_path: Path) -> None:
    root = image_folder(tmp_path, {"cat": 40, "dog": 40})
    before = {item.sha256 for item in data.load(root, seed=3).splits["val"]}
    image_folder(tmp_path, {"cat": 30, "dog": 30}, start=40)
    (root / "cat" / "0.png").rename(root / "cat" / "first.png")
    splits = data.load(root, seed=3).splits
    assert before <= {item.sha256 for item in splits["val"]}
    assert not before & {item.sha256 for item in splits["train"]}


def test_equal_images_are_never_in_both_halves(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path / ("cat" if number % 2 else "dog") / f"{number}.png", png(colour=(number % 8, 0, 0)))
    splits = data.load(tmp_path, val_fraction=0.4).splits
    seen = [{item.sha256 for item in splits[split]} for split in ("train", "val")]
    assert not seen[0] & seen[1]
    assert all(seen)
