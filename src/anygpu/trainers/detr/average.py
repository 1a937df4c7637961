"""A slowly moving average of a model's weights: steadier than the weights of any one step."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch


class Average:
    """Follows quickly in the first steps, and by `decay` a step later."""

    SETTLING_STEPS = 2000

    def __init__(self, model: Any, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.updates = decay, 0

    def update(self, model: Any) -> None:
        self.updates += 1
        keep = self.decay * (1 - math.exp(-self.updates / self.SETTLING_STEPS))
        theirs = model.state_dict()
        with torch.no_grad():
            for name, own in self.model.state_dict().items():
                if own.is_floating_point():
                    own.mul_(keep).add_(theirs[name].detach(), alpha=1 - keep)
                else:
                    own.copy_(theirs[name])

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]
