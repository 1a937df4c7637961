"""`huggingface` learns texts and images for real, and goes on bit for bit where it was killed."""

import csv
import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from anygpu.testing.training_process import TrainingProcess
from anygpu.trainers import At, BadConfig, BadDataset, LocalContext, TrainingResult, get_trainer

GOOD = ["fine", "lovely", "bright", "warm", "happy", "sweet", "great"]
BAD = ["awful", "dull", "cold", "sad", "bitter", "poor", "wrong"]
OTHER = ["the", "day", "was", "and", "we", "saw", "a", "tree", "near", "water", "in", "town"]
VERSE = [
    "to",
    "be",
    "or",
    "not",
    "to",
    "be",
    "that",
    "is",
    "the",
    "question",
    "whether",
    "tis",
    "nobler",
    "in",
    "the",
    "mind",
    "to",
    "suffer",
]


@pytest.fixture(scope="module")
def opinions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, chance = tmp_path_factory.mktemp("opinions") / "opinions.csv", random.Random(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(160):
            label, tone = (("good", GOOD), ("bad", BAD))[number % 2]
            words = chance.sample(OTHER, 8) + chance.sample(tone, 2)
            writer.writerow([" ".join(chance.sample(words, len(words))), label])
    return path


@pytest.fixture(scope="module")
def verse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verse") / "verse.txt"
    path.write_text(" ".join(random.Random(2).choices(VERSE, k=1200)))
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, chance = tmp_path_factory.mktemp("pictures"), random.Random(3)
    for number in range(80):
        image = Image.new("RGB", (24, 24), (chance.randrange(60),) * 3)
        shape, draw = ("round", "square")[number % 2], ImageDraw.Draw(image)
        at = (chance.randrange(6), chance.randrange(6), 16 + chance.randrange(6), 16 + chance.randrange(6))
        (draw.ellipse if shape == "round" else draw.rectangle)(at, fill=(220, 220, 220))
        (root / shape).mkdir(exist_ok=True)
        image.save(root / shape / f"{number}.png")
    return root


def trained(data: Path, output: Path, context: LocalContext | None = None, **settings: Any) -> TrainingResult:
    return get_trainer(
        "huggingface", dataset_path=data, output_dir=output, context=context, device="cpu", **settings
    ).train()


def weights(result: Mapping[str, Any]) -> str:
    return hashlib.sha256((Path(result["last"]) / "model.safetensors").read_bytes()).hexdigest()


def test_texts_are_told_apart_and_a_killed_training_ends_where_a_whole_one_ends(
    tmp_path: Path, opinions: Path
) -> None:
    settings: dict[str, Any] = {"epochs": 4, "learning_rate": 3e-3, "device": "cpu"}
    whole = TrainingProcess(trainer="hf", dataset=opinions, settings=settings).run(tmp_path / "whole")
    assert whole["metrics"]["accuracy"] > 0.9
    saving = TrainingProcess(trainer="hf", dataset=opinions, settings={**settings, "checkpoint_every_s": 0})
    seen = saving.run_until(tmp_path / "cut", random.Random().randrange(2, 30))
    resumed = saving.run(tmp_path / "cut", resume=True)
    assert seen - 2 <= resumed["first_step"] - 1 <= seen + 2  # from the last checkpoint, not from nothing
    assert resumed["samples_sha256"] == whole["samples_sha256"]
    assert [each["val_loss"] for each in resumed["history"]] == [
        each["val_loss"] for each in whole["history"]
    ]
    assert weights(resumed) == weights(whole)


class Stopping(LocalContext):
    """Asks to stop once a step has been told."""

    def __init__(self, output: Path, at: int = 0, *, resume: bool = False) -> None:
        super().__init__(output, resume=resume, bar=False)
        self.at, self.steps = at, list[int]()

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        self.steps.append(at.step)

    def should_stop(self) -> bool:
        return bool(self.at) and self.steps[-1] >= self.at


def test_a_language_model_learns_and_goes_on_after_a_stop_in_the_middle_of_an_epoch(
    tmp_path: Path, verse: Path
) -> None:
    settings: dict[str, Any] = {
        "task": "causal-lm",
        "epochs": 4,
        "lr": 5e-3,
        "block_size": 32,
        "export": ["onnx"],
    }
    whole = trained(verse, tmp_path / "whole", **settings)
    losses = [each["val_loss"] for each in whole.history]
    assert losses[-1] < 1.6
    assert losses[-1] < losses[0] - 0.5
    assert whole.exports[0].difference is not None
    assert whole.exports[0].inputs["input_ids"] == ("batch", "tokens")
    out = tmp_path / "out"
    cut = trained(verse, out, Stopping(out, 13), **settings)
    assert (cut.stopped, cut.timing.steps) == (True, 13)
    context = Stopping(out, resume=True)
    resumed = trained(verse, out, context, **settings)
    assert context.steps[0] == 14
    assert resumed.samples_sha256 == whole.samples_sha256
    assert [each["val_loss"] for each in resumed.history] == losses


def test_images_are_told_apart_and_the_export_loads_again(tmp_path: Path, pictures: Path) -> None:
    import transformers

    result = trained(
        pictures, tmp_path, task="image-classification", model="resnet", epochs=8, lr=1e-2, batch_size=8
    )
    assert result.metrics["accuracy"] > 0.9
    onnx, safetensors = result.exports
    assert onnx.inputs["pixel_values"][0] == "batch"
    again = transformers.AutoModelForImageClassification.from_pretrained(safetensors.path)
    assert again.config.id2label == {0: "round", 1: "square"}
    assert "accuracy" in (tmp_path / "model-card.md").read_text()


def test_a_training_that_had_ended_ends_again_with_the_same_model(tmp_path: Path, opinions: Path) -> None:
    settings: dict[str, Any] = {"epochs": 1, "export": ["safetensors"], "model": "bert"}
    first = trained(opinions, tmp_path, **settings)
    again = trained(opinions, tmp_path, LocalContext(tmp_path, resume=True), **settings)
    assert (again.timing.steps, again.metrics) == (first.timing.steps, first.metrics)
    saved = json.loads((tmp_path / "best" / "config.json").read_text())
    assert saved["model_type"] == "bert"


def test_a_trained_model_in_a_folder_is_trained_further(tmp_path: Path, opinions: Path) -> None:
    first = trained(opinions, tmp_path / "first", epochs=4, lr=3e-3, export=[])
    further = trained(opinions, tmp_path / "further", epochs=1, model=str(first.last), export=[])
    assert further.history[0]["val_loss"] < 0.6 * first.history[0]["val_loss"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": "distilbertt"}, "did you mean 'distilbert'"),
        ({"model": "vit"}, "'vit' cannot be used for the task text-classification"),
        ({"tokenizer": "nowhere"}, "tokenizer: no tokenizer can be loaded from nowhere"),
        ({"device": "cuda:1"}, "set CUDA_VISIBLE_DEVICES"),
        ({"model_config": 3}, "model_config: 3 is not a mapping"),
        ({"warmup_step": 3}, "did you mean 'warmup_steps'"),
    ],
)
def test_a_wrong_setting_is_said(tmp_path: Path, opinions: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadConfig, match=said):
        get_trainer("huggingface", dataset_path=opinions, output_dir=tmp_path, **settings).train()


def test_a_text_too_short_for_a_passage_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("to be")
    with pytest.raises(BadDataset, match="too short for sequences of 64 tokens"):
        trained(tmp_path / "a.txt", tmp_path / "out", task="causal-lm")


def test_patches_of_images_are_learned_from_too(tmp_path: Path, pictures: Path) -> None:
    result = trained(pictures, tmp_path, task="image-classification", epochs=2, lr=2e-3, batch_size=8)
    assert result.history[1]["loss"] < result.history[0]["loss"]
    assert result.exports[0].inputs["pixel_values"] == ("batch", 3, 32, 32)
