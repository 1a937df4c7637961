"""A trained model as a file that ultralytics, and everything made for it, opens."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

LICENCE = "AGPL-3.0 (https://ultralytics.com/license)"


def save(engine: Any, path: Path, held: Any = None) -> Path:
    """The averaged weights, in half precision, as ultralytics' own best.pt has them; `held`: as they were then."""
    import torch
    from ultralytics import __version__

    model = deepcopy(engine.ema.ema)
    if held is not None:
        model.load_state_dict(held)
    model.criterion = None
    model.args = _portable(vars(engine.args))
    draft = path.with_suffix(".draft")
    kept = {"model": model.half(), "ema": None, "epoch": -1, "version": __version__, "license": LICENCE}
    torch.save({**kept, "train_args": _portable(vars(engine.args))}, draft)
    draft.replace(path)
    return path


def _portable(arguments: dict[str, Any]) -> dict[str, Any]:
    """Without the paths of the machine it was trained on."""
    own = ("data", "project", "save_dir", "model", "name", "device")
    return {name: value for name, value in arguments.items() if name not in own}
