"""The state of a training comes back as it was, and never as code."""

import random
from pathlib import Path

import numpy
import pytest
import torch

from anygpu.trainers.torch import state


def test_every_source_of_chance_comes_back(tmp_path: Path) -> None:
    state.seed_everything(5)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.rand(4, 3)).sum().backward()
    optimizer.step()
    state.save(tmp_path, {"model": model, "optimizer": optimizer})
    drawn = [random.random(), float(numpy.random.rand()), float(torch.rand(1))]
    state.seed_everything(6)
    other = torch.nn.Linear(3, 1)
    other_optimizer = torch.optim.AdamW(other.parameters())
    state.load(tmp_path, {"model": other, "optimizer": other_optimizer})
    assert [random.random(), float(numpy.random.rand()), float(torch.rand(1))] == drawn
    assert torch.equal(other.weight, model.weight)
    moments = [
        each.state[each.param_groups[0]["params"][0]]["exp_avg"] for each in (optimizer, other_optimizer)
    ]
    assert torch.equal(*moments)
    assert [path.name for path in tmp_path.iterdir()] == [state.FILE]


def test_a_state_that_holds_code_is_refused(tmp_path: Path) -> None:
    torch.save({"parts": {}, "chance": random.Random(0), "threads": 1}, tmp_path / state.FILE)
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        state.load(tmp_path, {})
