"""The `nanogpt` trainer: trains a GPT on a text and writes a generated sample at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anygpu.trainers import data
from anygpu.trainers.config import Accepts, TrainingConfig
from anygpu.trainers.contract import PlannerHints
from anygpu.trainers.nanogpt import settings, text
from anygpu.trainers.result import TrainingResult
from anygpu.trainers.torch.settings import OPTIMIZERS, SCHEDULERS
from anygpu.trainers.torch.trainer import TorchTrainer

if TYPE_CHECKING:
    from anygpu.trainers.nanogpt.learner import GptLearner

TASK = "text-generation"


class NanoGpt(TorchTrainer):
    """Trains a character or byte language model.

    The passages of each step depend only on the seed and the step number. By default, the passages of an
    epoch have about as many tokens as the training text.
    """

    name = "nanogpt"
    title = "Small GPT"
    description = "Trains a small language model of characters or bytes on a text."
    extra = "nanogpt"
    needs = ("torch", "safetensors", "onnx", "onnxruntime")
    dataset_format = "a text file, or a folder or archive of text files"
    licence = "BSD-3-Clause"
    goal = ("val_loss", "min")
    options = settings.OPTIONS
    known_models = tuple(settings.SIZES)
    has_other_models = False
    learner: GptLearner
    accepts = Accepts(
        tasks=(TASK,),
        options=frozenset(settings.OPTIONS),
        optimizers=OPTIMIZERS,
        schedulers=SCHEDULERS,
        exports=("onnx", "safetensors"),
        ignores=frozenset({"image_size", "workers", "weights"}),
        defaults={
            "model": settings.DEFAULT,
            "task": TASK,
            "optimizer": "adamw",
            "scheduler": "cosine",
            "val_fraction": 0.1,
        },
    )
    planner_hints = PlannerHints(
        framework="torch",
        default_model=settings.DEFAULT,
        parameters={"gpt-nano": 80_000, "gpt-micro": 800_000, "gpt-mini": 10_600_000},
        requirements=("torch",),
    )

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        settings.options(config)

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        read(config, path)

    def prepare_dataset(self) -> None:
        self.corpus = read(self.config, self.require_dataset())
        self.data_hash = self.corpus.sha256

    def create_learner(self) -> GptLearner:
        from anygpu.trainers.nanogpt.learner import GptLearner

        return GptLearner(self.config, settings.options(self.config), self.corpus)

    def train(self) -> TrainingResult:
        result = super().train()
        if not result.stopped and self.ranks.is_first:
            path = self.output_dir / "sample.txt"
            path.write_text(self.learner.sample(), encoding="utf-8")
            self.context.artifact(path)
        return result


def read(config: TrainingConfig, path: Path) -> text.Corpus:
    options = settings.options(config)
    return text.load(
        data.open_dataset(path),
        level=options["level"],
        val_fraction=config.val_fraction,
        block_size=options["block_size"],
    )
