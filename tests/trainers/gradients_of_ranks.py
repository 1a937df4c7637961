"""Train one step of nanogpt in this process and write its gradients and weights to a file, for a test."""

import sys
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers.nanogpt import settings
from anygpu.trainers.nanogpt.learner import GptLearner
from anygpu.trainers.nanogpt.trainer import NanoGpt, read
from anygpu.trainers.ranks import rank_from_environment, size_from_environment
from anygpu.trainers.torch import ranks

CONFIG: dict[str, Any] = {
    "model": "gpt-nano",
    "batch_size": 8,
    "accumulate": 2,
    "block_size": 32,
    "dropout": 0.0,
    "steps_per_epoch": 2,
    "device": "cpu",
    "threads": 1,
    "clip": 0.0,
}


def main(dataset: str, output: str) -> None:
    config = NanoGpt.parse_settings(CONFIG)
    if size_from_environment() > 1:
        ranks.join("cpu")
    learner = GptLearner(config, settings.options(config), read(config, Path(dataset)))
    step = next(learner.steps(0, 0))
    values = {name: each.grad.clone() for name, each in learner.model.named_parameters()}
    weights = {f"weight {name}": each.detach() for name, each in learner.model.named_parameters()}
    torch.save({**values, **weights, "loss": step.loss}, f"{output}/rank{rank_from_environment()}.pt")
    ranks.leave_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
