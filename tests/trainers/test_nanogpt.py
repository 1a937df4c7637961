"""nanogpt learns a small language, goes on bit for bit after SIGKILL, and exports what it learnt."""

import random
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from tests.trainers.comparing import chosen_steps, killed_and_resumed, left_behind

from anygpu.testing.training_process import TrainingProcess
from anygpu.trainers import BadDataset, get_trainer
from anygpu.trainers.nanogpt.model import Gpt, GptShape

WHO = ("the cat", "a dog", "my friend", "the old king", "a small bird")
DOES = ("sees", "follows", "likes", "finds", "hears")
WHAT = ("the river", "a green hill", "the moon", "an open door", "the long road")
EPOCHS, STEPS = 3, 40
SETTINGS: dict[str, Any] = {
    "model": "gpt-nano",
    "epochs": EPOCHS,
    "steps_per_epoch": STEPS,
    "batch_size": 8,
    "accumulate": 2,
    "block_size": 32,
    "dropout": 0.05,
    "learning_rate": 5e-3,
    "threads": 1,
    "device": "cpu",
}
BAR = 1.4  # a guess among its 26 characters costs 3.3


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = random.Random(0)
    said = [" ".join(chance.choice(words) for words in (WHO, DOES, WHAT)) for _ in range(600)]
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    path.write_text(".\n".join(said))
    return path


def training(sentences: Path, **settings: Any) -> TrainingProcess:
    settings = {**SETTINGS, "checkpoint_every_s": 0, "export": [], **settings}
    return TrainingProcess(trainer="nanogpt", dataset=sentences, settings=settings)


def test_it_learns_the_language_and_exports_it(sentences: Path, tmp_path: Path) -> None:
    result = get_trainer(
        "nanogpt", dataset_path=sentences, output_dir=tmp_path, export=["onnx", "safetensors"], **SETTINGS
    ).train()
    assert result.metrics["val_loss"] < BAR < result.history[0]["val_loss"]
    assert all(each.difference is not None and each.difference <= 1e-4 for each in result.exports)
    assert result.exports[0].inputs == {"tokens": ("batch", "time")}
    session = onnxruntime.InferenceSession(str(result.exports[0].path), providers=["CPUExecutionProvider"])
    answer = session.run(None, {"tokens": torch.zeros(3, 5, dtype=torch.int64).numpy()})[0]
    assert answer.shape[:2] == (3, 5)
    sample = (tmp_path / "sample.txt").read_text()
    assert len(sample) == 501
    assert sum(sample.count(word) for word in ("the", "a ", "my", ".\n")) > 20


def test_killed_at_random_steps_it_ends_bit_for_bit_the_same(sentences: Path, tmp_path: Path) -> None:
    steps = chosen_steps(7, 3, EPOCHS * STEPS)
    whole = left_behind(tmp_path / "whole", training(sentences).run(tmp_path / "whole"))
    left, first = killed_and_resumed(training(sentences), tmp_path / "killed", steps)
    assert left == whole
    assert first > 2
    samples = [(tmp_path / each / "sample.txt").read_text() for each in ("whole", "killed")]
    assert samples[0] == samples[1]


def test_gradients_of_several_batches_are_those_of_one_large_one(sentences: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SETTINGS, "epochs": 1, "steps_per_epoch": 3, "dropout": 0.0, "export": []}
    losses = []
    for name, more in (
        ("one", {"batch_size": 16, "accumulate": 1}),
        ("two", {"batch_size": 8, "accumulate": 2}),
    ):
        trainer = get_trainer(
            "nanogpt", dataset_path=sentences, output_dir=tmp_path / name, **{**settings, **more}
        )
        losses.append(trainer.train().history[0]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_no_token_sees_what_comes_after_it() -> None:
    torch.manual_seed(0)
    model = Gpt(GptShape(tokens=11, block_size=8, layers=2, heads=2, width=8, dropout=0.1)).eval()
    tokens = torch.randint(11, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 11
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_a_text_that_is_too_short_is_told(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("too short")
    with pytest.raises(BadDataset, match="add text, or make `block_size` smaller"):
        get_trainer(
            "nanogpt", dataset_path=tmp_path / "short.txt", output_dir=tmp_path / "out", **SETTINGS
        ).train()
