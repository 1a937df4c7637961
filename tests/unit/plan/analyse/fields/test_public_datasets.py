"""A public data set is found however its name is spelt, and nothing else is."""

import pytest

from anygpu.plan.analyse.fields.public_datasets import dataset_key, find_dataset


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("CIFAR-10", "cifar10"),
        ("cifar_10", "cifar10"),
        ("uoft-cs/cifar10", "cifar10"),
        ("imagenet/train", "imagenet"),
        ("/data/imagenet/val", "imagenet"),
        ("Fashion-MNIST.zip", "fashionmnist"),
        ("places365", "places365"),
    ],
)
def test_usual_spellings_lead_to_the_same_data_set(name: str, found: str) -> None:
    dataset = find_dataset(name)
    assert dataset is not None
    assert dataset.name == found
    assert dataset.gb > 0
    assert dataset.samples > 0


@pytest.mark.parametrize("name", ["", "/", "my-own-pictures", "data", "train"])
def test_other_names_are_no_public_data_set(name: str) -> None:
    assert find_dataset(name) is None


def test_a_key_has_only_letters_digits_and_slashes() -> None:
    assert dataset_key("HuggingFace_M4/COCO.yaml") == "huggingfacem4/coco"
