"""Trainings that note the processor time of every step; run by bench.record_steps where the frameworks are.

ANYGPU_RECORD lists what to train, as JSON. Each prints its log as a line (docs/explanation/accuracy.md). The
frameworks are imported once; each training is a process forked from there.
"""

import csv
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anygpu.trainers import At, LocalContext, get_trainer
from bench.measured_training import draw

WORDS = (
    "we",
    "saw",
    "the",
    "river",
    "and",
    "a",
    "green",
    "hill",
    "near",
    "an",
    "old",
    "town",
    "in",
    "warm",
    "light",
)
FRAMEWORKS = {
    "torch-classifier": ("torch", "torchvision"),
    "nanogpt": ("torch",),
    "tabular": ("sklearn.ensemble", "xgboost", "lightgbm"),
    "yolo": ("torch", "ultralytics"),
    "huggingface": ("torch", "transformers"),
}
MARK = "RECORDED "
TONES = {"good": ["fine", "lovely", "bright"], "bad": ["awful", "dull", "bitter"]}


class Noting(LocalContext):
    """Training begins where it asks for a checkpoint to go on from, and ends with the last one it saves."""

    def __init__(self, output: Path) -> None:
        super().__init__(output, bar=False)
        self.began_s = self.ended_s = time.process_time()
        self.times_s: list[float] = []
        self.steps = self.epochs = 0

    def restore(self) -> None:
        self.began_s = time.process_time()

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        if at.epoch is None:
            self.times_s.append(round(time.process_time() - self.began_s, 4))
            self.steps, self.epochs = at.steps or 0, at.epochs or 1

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        self.ended_s = time.process_time()


def main() -> None:
    wanted = json.loads(os.environ["ANYGPU_RECORD"])
    for module in FRAMEWORKS[wanted[0]["trainer"]]:
        importlib.import_module(module)
    for number, asked in enumerate(wanted):
        child = os.fork()
        if child == 0:
            place = Path(f"run-{number}")
            place.mkdir()
            os.chdir(place)
            train(asked)
            sys.stdout.flush()
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(1)


def train(asked: dict[str, Any]) -> None:
    data = DATA[asked["data"]](Path("data"), random.Random(asked["seed"]))
    context = Noting(Path("out"))
    settings = {**asked["settings"], "seed": asked["seed"], "export": []}
    trainer = get_trainer(
        asked["trainer"], dataset_path=data, output_dir=Path("out"), context=context, **settings
    )
    trainer.train()
    found = {
        "seed": asked["seed"],
        "steps": context.steps,
        "steps_per_epoch": context.steps // context.epochs,
        **({"grows": True} if trainer.grows(trainer.config) else {}),
        "times_s": context.times_s,
        "total_s": round(context.ended_s - context.began_s, 4),
    }
    sys.stdout.write(MARK + json.dumps(found) + "\n")


def text(path: Path, chance: random.Random) -> Path:
    path = path.with_suffix(".txt")
    path.write_text("\n".join(" ".join(chance.choices(WORDS, k=9)) + "." for _ in range(1500)))
    return path


def opinions(path: Path, chance: random.Random) -> Path:
    path = path.with_suffix(".csv")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for number in range(1200):
            label = ("good", "bad")[number % 2]
            words = chance.choices(WORDS, k=chance.randrange(10, 40)) + chance.sample(TONES[label], 2)
            writer.writerow([" ".join(words), label])
    return path


def table(path: Path, chance: random.Random, rows: int = 6_000) -> Path:
    path = path.with_suffix(".csv")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{column}" for column in range(20)), "y"])
        for _ in range(rows):
            row = [chance.gauss(0, 1) for _ in range(20)]
            writer.writerow([*row, row[0] * row[1] + row[2] ** 2 + chance.gauss(0, 0.3)])
    return path


def long_table(path: Path, chance: random.Random) -> Path:
    return table(path, chance, rows=30_000)


def pictures(path: Path, chance: random.Random) -> Path:
    return draw(path, boxes=False)


def boxes(path: Path, chance: random.Random) -> Path:
    return draw(path, boxes=True)


DATA: dict[str, Callable[[Path, random.Random], Path]] = {
    "text": text,
    "opinions": opinions,
    "table": table,
    "long-table": long_table,
    "pictures": pictures,
    "boxes": boxes,
}

if __name__ == "__main__":
    main()
