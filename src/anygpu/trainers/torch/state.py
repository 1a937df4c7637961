"""Save and restore the state of a torch training: weights, optimiser, scaler and random generators.

The position in the data and the learning rate are not saved, because they are computed from seed, epoch and
step (see `sampling` and `learner`).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from anygpu.trainers.ranks import SINGLE, Ranks

FILE = "state.pt"


class Stateful(Protocol):
    """An object with a state dict: a model, an optimiser, a gradient scaler."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Any) -> Any: ...


def save(directory: Path, parts: Mapping[str, Stateful], ranks: Ranks = SINGLE) -> Path:
    """Write the state of all parts, and of the random generators of all ranks, to one file, atomically."""
    chances = ranks.gather(random_state())
    state = {
        "parts": {name: part.state_dict() for name, part in parts.items()},
        "chance": chances[0],
        "other_chances": chances[1:],
        "threads": torch.get_num_threads(),
    }
    return serialize(directory / FILE, state)


def load(directory: Path, parts: Mapping[str, Stateful], ranks: Ranks = SINGLE) -> None:
    """Restore the state of all parts, on any device. Loading does not execute code from the file.

    If the checkpoint was saved by another number of ranks, only rank 0 restores its random generators.
    """
    state = torch.load(directory / FILE, map_location="cpu", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(state["parts"][name])
    chances = [state["chance"], *state.get("other_chances", ())]
    if len(chances) == ranks.size:
        # Another number of threads changes the order of sums, and so the last bits of results.
        torch.set_num_threads(state["threads"])
    if len(chances) == ranks.size or ranks.is_first:
        set_random_state(chances[ranks.rank])


def serialize(path: Path, state: Any) -> Path:
    draft = path.with_name(f".{path.name}.draft")
    torch.save(state, draft)
    draft.replace(path)
    return path


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)  # seeds every device
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def random_state() -> dict[str, Any]:
    """Return the state of every random generator that a training may use."""
    return {
        "python": random.getstate(),
        "numpy": _numpy_state(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "mps": torch.mps.get_rng_state() if torch.backends.mps.is_available() else None,
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    random.setstate(_tuples(state["python"]))
    _set_numpy_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    for index, each in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(each, index)
    if state["mps"] is not None and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])


def _numpy_state() -> list[Any] | None:
    """Return numpy's random state as plain values, because `torch.load(weights_only=True)` accepts only these."""
    if "numpy" not in sys.modules:
        return None
    name, keys, *rest = sys.modules["numpy"].random.get_state()
    return [name, keys.tolist(), *rest]


def _set_numpy_state(state: list[Any] | None) -> None:
    if state is not None:
        import numpy

        name, keys, *rest = state
        numpy.random.set_state((name, numpy.array(keys, dtype="u4"), *rest))


def _tuples(state: Any) -> Any:
    return tuple(_tuples(each) for each in state) if isinstance(state, list | tuple) else state
