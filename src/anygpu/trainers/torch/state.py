"""Everything a training on torch needs to go on bit for bit: weights, optimiser, scaler, and every source of chance.

The place in the data is not here: batches are a function of seed, epoch and step (`sampling`), and so is the learning
rate (`schedules`).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

FILE = "state.pt"


class Stateful(Protocol):
    """A model, an optimiser, a gradient scaler, ..."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Any) -> Any: ...


def save(directory: Path, parts: Mapping[str, Stateful]) -> Path:
    """The file appears whole or not at all."""
    state = {
        "parts": {name: part.state_dict() for name, part in parts.items()},
        "chance": random_state(),
        "threads": torch.get_num_threads(),
    }
    return serialize(directory / FILE, state)


def load(directory: Path, parts: Mapping[str, Stateful]) -> None:
    """On any device: each part moves its tensors to where it lives. No code in the file is run."""
    state = torch.load(directory / FILE, map_location="cpu", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(state["parts"][name])
    # With another number of threads sums are taken in another order, and the last bits differ.
    torch.set_num_threads(state["threads"])
    set_random_state(state["chance"])


def serialize(path: Path, state: Any) -> Path:
    draft = path.with_name(f".{path.name}.draft")
    torch.save(state, draft)
    draft.replace(path)
    return path


def seed_everything(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)  # every device's
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


def random_state() -> dict[str, Any]:
    """The state of every random generator a training may draw from."""
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
    """As plain values, which a file that may hold no code can keep."""
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
