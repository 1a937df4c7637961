"""Settings and data of the trainers on torch are checked where torch is not installed."""

import sys
from pathlib import Path

import pytest

from anygpu.trainers import BadConfig, BadDataset, find
from anygpu.trainers.nanogpt import text
from anygpu.trainers.torch import settings


def test_nothing_of_torch_is_imported_to_check_a_configuration() -> None:
    before = {name for name in sys.modules if name.split(".")[0] == "torch"}
    for name in ("torch-classifier", "nanogpt"):
        assert find(name).parse_settings({"epochs": 3, "clip": 1}).epochs == 3
    assert {name for name in sys.modules if name.split(".")[0] == "torch"} == before


def test_every_option_that_does_not_fit_is_told_at_once() -> None:
    wrong = {"flip": 2, "threads": 1.5, "freeze": "yes", "rotate": "left"}
    with pytest.raises(BadConfig) as caught:
        find("torch-classifier").parse_settings(wrong)
    assert str(caught.value).splitlines() == [
        "threads: 1.5 is not a whole number from 0",
        "flip: 2 is not a number from 0 to 1",
        "rotate: 'left' is not a number from 0 to 180",
        "freeze: 'yes' is not true or false",
    ]


@pytest.mark.parametrize(
    ("trainer", "wrong", "said"),
    [
        ("torch-classifier", {"freeze": True}, "freeze: needs pretrained weights; set `weights`"),
        (
            "torch-classifier",
            {"class_weights": "heavy"},
            "'heavy' is not valid; set 'balanced', or a list of numbers",
        ),
        (
            "torch-classifier",
            {"image_size": 8},
            "image_size: the model small-cnn halves the image four times, so the size is too small; set at least 16",
        ),
        ("torch-classifier", {"flips": 1}, "did you mean 'flip'"),
        ("nanogpt", {"model": "gpt-5"}, "model: 'gpt-5' is not one of gpt-nano, gpt-micro"),
        ("nanogpt", {"width": 50, "heads": 4}, "width: 50 is not a multiple of heads \\(4\\)"),
        ("nanogpt", {"level": "words"}, "level: 'words' is not characters or bytes"),
        ("nanogpt", {"workers": 2}, "workers: trainer 'nanogpt' does not use this setting"),
    ],
)
def test_what_does_not_fit_together_is_told(trainer: str, wrong: dict[str, object], said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        find(trainer).parse_settings(wrong)


def test_a_whole_number_may_be_written_as_a_fraction_and_the_other_way_round() -> None:
    found = settings.read(settings.COMMON, {"threads": 2.0, "clip": 1})
    assert [repr(found[name]) for name in ("threads", "clip", "gamma")] == ["2", "1.0", "0.1"]


def test_characters_and_bytes_come_back_as_they_were() -> None:
    said = "Grüße, 世界"
    for vocabulary in (text.Vocabulary("".join(sorted(set(said)))), text.Vocabulary()):
        assert vocabulary.decode(vocabulary.encode(said)) == said
    assert text.Vocabulary("ab").decode(text.Vocabulary("ab").encode("a?b")) == "ab"


def test_a_step_s_passages_depend_on_seed_and_step_alone() -> None:
    first = text.starts(1000, 8, seed=0, step=5)
    assert first == text.starts(1000, 8, seed=0, step=5)
    assert first not in (text.starts(1000, 8, seed=0, step=6), text.starts(1000, 8, seed=1, step=5))


def test_what_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\nnot \xff fine\n")
    config = find("nanogpt").parse_settings({})
    with pytest.raises(BadDataset, match=r"a\.txt:2: is not UTF-8 text"):
        find("nanogpt").check_dataset(config, tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadDataset, match="has no text file"):
        find("nanogpt").check_dataset(config, tmp_path / "empty")
