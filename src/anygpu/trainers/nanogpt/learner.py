"""Train a GPT to predict the next token in random passages of a text."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.nanogpt import settings, text
from anygpu.trainers.nanogpt.model import Gpt, GptShape, with_decay
from anygpu.trainers.ranks import part_of
from anygpu.trainers.result import Export
from anygpu.trainers.torch import exports
from anygpu.trainers.torch.learner import TorchLearner

WARM_UP = 0.05  # fraction of all steps
VAL_BATCHES = 50  # a longer validation text is sampled down to 50 to 100 batches


class GptLearner(TorchLearner):
    def __init__(self, config: TrainingConfig, options: Mapping[str, Any], corpus: text.Corpus) -> None:
        self.vocabulary = corpus.vocabulary
        self.train_tokens = torch.frombuffer(corpus.train, dtype=torch.int32)
        self.val_tokens = torch.frombuffer(corpus.val, dtype=torch.int32)
        self.passages = config.batch_size * options["accumulate"]  # per step
        self.block_size = options["block_size"]
        steps = options["steps_per_epoch"] or len(corpus.train) // (self.passages * self.block_size)
        super().__init__(config, _warmed_up(options, steps * config.epochs), max(1, steps))

    def create_model(self) -> Any:
        self.shape = {name: self.options[name] for name in settings.SHAPE}
        return Gpt(GptShape(tokens=len(self.vocabulary), **self.shape))

    def parameters(self) -> list[Any]:
        return with_decay(self.model, self.options["weight_decay"])

    def batches(self, epoch: int, step: int) -> Iterator[tuple[Sequence[Any], Sequence[int | str]]]:
        size, last = self.config.batch_size, len(self.train_tokens) - self.block_size
        for each in range(step, self.steps_per_epoch):
            done = epoch * self.steps_per_epoch + each
            begin = text.starts(last, self.passages, seed=self.config.seed, step=done)
            parts = [begin[at : at + size] for at in range(0, len(begin), size)]
            yield [part_of(part, self.ranks) for part in parts], begin

    def loss(self, part: Any) -> Any:
        return self.model.loss(*self._passages(self.train_tokens, part))

    def validate(self) -> Mapping[str, float]:
        """Return the mean loss on the validation text, as the metric `val_loss`.

        The text is cut into passages that do not overlap. Of a long text, only every n-th passage is used.
        """
        self.model.eval()
        size = self.config.batch_size
        begin = range(0, len(self.val_tokens) - self.block_size, self.block_size)
        begin = begin[:: max(1, len(begin) // (VAL_BATCHES * size))]
        total = 0.0
        with torch.no_grad():
            for at in range(0, len(begin), size):
                part = begin[at : at + size]
                total += float(self.model.loss(*self._passages(self.val_tokens, part))) * len(part)
        return {"val_loss": total / len(begin)}

    def _passages(self, tokens: Any, begin: Sequence[int]) -> tuple[Any, Any]:
        """Return, for passages that start at `begin`, the input tokens and the target tokens, shifted by one."""
        both = torch.stack([tokens[start : start + self.block_size + 1] for start in begin])
        both = both.to(self.device, torch.int64)
        return both[:, :-1], both[:, 1:]

    def export(self, format: str, directory: Path) -> Export:
        model, path = copy.deepcopy(self.model).cpu().eval(), directory / f"model.{format}"
        example = self.val_tokens[None, : self.block_size].to(torch.int64)
        if format == "onnx":
            free = {0: "batch", 1: "time"}
            return exports.to_onnx(model, example, path, inputs="tokens", output="logits", free=free)
        return exports.to_safetensors(model, example, path, about=self.about())

    def about(self) -> Mapping[str, str]:
        return {
            "model": self.config.model,
            "shape": json.dumps(self.shape),
            "characters": json.dumps(self.vocabulary.characters),
        }

    def sample(self) -> str:
        """Return text that the model generates. The same weights and seed give the same text."""
        self.model.eval()
        start = self.vocabulary.encode(self.options["sample_start"]) or [0]
        chance = torch.Generator().manual_seed(self.config.seed)
        tokens = torch.tensor([list(start)], device=self.device)
        written = self.model.write(tokens, self.options["sample_tokens"], chance=chance)
        return self.vocabulary.decode(written[0].tolist())


def _warmed_up(options: Mapping[str, Any], steps: int) -> dict[str, Any]:
    wanted = options["warmup_steps"]
    return {**options, "warmup_steps": int(WARM_UP * steps) if wanted < 0 else wanted}
