"""Datasets of texts and images for transformers, and the collator that builds batches from their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers.huggingface.texts import TextRow

NUMBER = "sample"  # key of a sample's index, used to record which samples were seen
IGNORED = -100  # label that the loss ignores


@dataclass(frozen=True)
class ClassifiedTexts:
    """Dataset of tokenized texts with class labels."""

    rows: Sequence[TextRow]
    classes: Sequence[str]
    tokenizer: Any
    max_length: int

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        row = self.rows[index]
        tokens = self.tokenizer(row.text, truncation=True, max_length=self.max_length)["input_ids"]
        return {"tokens": tokens, "labels": self.classes.index(row.label), NUMBER: index}


class TextPassages:
    """Dataset of token sequences of equal length, cut from the joined texts, for a language model."""

    def __init__(self, rows: Sequence[TextRow], tokenizer: Any, length: int) -> None:
        end = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
        tokens = [each for row in rows for each in (*tokenizer(row.text)["input_ids"], *end)]
        self.passages = [tokens[at : at + length] for at in range(0, len(tokens) - length + 1, length)]

    def __len__(self) -> int:
        return len(self.passages)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return {"tokens": self.passages[index], NUMBER: index}


@dataclass(frozen=True)
class ClassifiedImages:
    """Dataset of images resized to a square, with values from -1 to 1."""

    items: Sequence[Any]  # anygpu.trainers.data.Item
    size: int

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        item = self.items[index]
        return {"pixels": pixels(item.image, self.size), "labels": item.label, NUMBER: index}


def pixels(path: Path, size: int) -> Any:
    import numpy
    from PIL import Image

    with Image.open(path) as image:
        scaled = image.convert("RGB").resize((size, size))
    return numpy.asarray(scaled, dtype="float32").transpose(2, 0, 1) / 127.5 - 1


@dataclass(frozen=True)
class Collator:
    """Builds batches from samples of `ClassifiedTexts`, `TextPassages` or `ClassifiedImages`."""

    pad: int = 0

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        import torch

        batch = self._pictures(samples) if "pixels" in samples[0] else self._tokens(samples)
        if "labels" in samples[0]:
            batch["labels"] = torch.tensor([each["labels"] for each in samples])
        elif "input_ids" in batch:
            batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, IGNORED)
        return {**batch, NUMBER: torch.tensor([each[NUMBER] for each in samples])}

    def _pictures(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        import torch

        return {"pixel_values": torch.stack([torch.from_numpy(each["pixels"]) for each in samples])}

    def _tokens(self, samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        import torch

        longest = max(1, *(len(each["tokens"]) for each in samples))
        lengths = [len(each["tokens"]) for each in samples]
        ids = [[*each["tokens"], *[self.pad] * (longest - len(each["tokens"]))] for each in samples]
        mask = [[1] * length + [0] * (longest - length) for length in lengths]
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
