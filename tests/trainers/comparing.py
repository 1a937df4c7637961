"""Two trainings compared by what they leave: their weights' hashes, the samples they saw, and their history."""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anygpu.testing.training_process import TrainingProcess


def left_behind(output: Path, result: dict[str, Any]) -> dict[str, Any]:
    weights = {name: sha256(output / name) for name in ("best.safetensors", "last.safetensors")}
    return {**weights, "samples": result["samples_sha256"], "history": result["history"]}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def killed_and_resumed(
    training: TrainingProcess, output: Path, steps: Iterator[int]
) -> tuple[dict[str, Any], int]:
    """SIGKILL at each of the steps in turn, then to the end; (what is left, the first step of the last resume)."""
    for attempt, step in enumerate(steps):
        training.run_until(output, step, resume=attempt > 0)
    result = training.run(output, resume=True)
    return left_behind(output, result), result["first_step"]


def chosen_steps(seed: int, count: int, last: int) -> Iterator[int]:
    """Anywhere in the training, in order."""
    return iter(sorted(random.Random(seed).sample(range(2, last), count)))
