"""Tokenize a text, and choose the passages of each step. Nothing here imports torch."""

from __future__ import annotations

import hashlib
import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anygpu.trainers.errors import BadDataset, Finding

ENDINGS = (".txt", ".md", ".text")


@dataclass(frozen=True)
class Vocabulary:
    """Tokenizer with one token per character, or per byte if `characters` is empty."""

    characters: str = ""

    def __len__(self) -> int:
        return len(self.characters) or 256

    def encode(self, text: str) -> array[int]:
        """Return the tokens as 32-bit integers. Unknown characters are dropped."""
        if not self.characters:
            return array("i", iter(text.encode()))
        places = {character: index for index, character in enumerate(self.characters)}
        return array("i", (places[character] for character in text if character in places))

    def decode(self, tokens: Sequence[int]) -> str:
        if not self.characters:
            return bytes(iter(tokens)).decode(errors="replace")
        return "".join(self.characters[token] for token in tokens)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    vocabulary: Vocabulary
    train: array[int]  # token sequence
    val: array[int]
    sha256: str


def load(path: Path, *, level: str, val_fraction: float, block_size: int) -> Corpus:
    """Read and tokenize a text file, or all text files of a folder joined together.

    The last `val_fraction` of the text is used for validation.
    """
    text = "\n".join(_read(each) for each in _files(path))
    vocabulary = Vocabulary("".join(sorted(set(text)))) if level == "characters" else Vocabulary()
    tokens = vocabulary.encode(text)
    split = int(len(tokens) * (1 - val_fraction))
    train, val = tokens[:split], tokens[split:]
    for name, part in (("training", train), ("validation", val)):
        if len(part) <= block_size:
            what = (
                f"{len(part):,} tokens are left for {name}; more than block_size ({block_size:,}) are needed"
            )
            raise BadDataset([Finding(path, f"{what}: add text, or make `block_size` smaller")])
    return Corpus(
        vocabulary=vocabulary, train=train, val=val, sha256=hashlib.sha256(text.encode()).hexdigest()
    )


def starts(last: int, count: int, *, seed: int, step: int) -> list[int]:
    """Return `count` random start positions, below `last`, for the passages of a training step.

    They depend only on seed and step, so a checkpoint does not have to store a random state for them.
    """
    return random.Random(f"passages {seed} {step}").choices(range(last), k=count)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(each for each in path.rglob("*") if each.suffix.lower() in ENDINGS)
    if not files:
        what = (
            f"has no text file; add a file that ends with {', '.join(ENDINGS)}"
            if path.is_dir()
            else "does not exist"
        )
        raise BadDataset([Finding(path, what)])
    return files


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise BadDataset([Finding(path, "is not UTF-8 text; save it as UTF-8", line)]) from None
