"""Parser for Hugging Face's Trainer: `{'loss': 0.5, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 1.0}`.

Newer versions print the values as strings. The line does not contain the step, so the step is read from the
progress bar that is printed after the line.
"""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

_ITEM = re.compile(r"'([^'\s]{1,100})': ('?)(%s)\2(?=[,}])" % NUMBER)
# One of these keys shows that the line is the Trainer's; any dictionary can have an 'epoch'.
_TRAINER_KEYS = ("loss", "eval_loss", "train_loss", "train_runtime", "eval_runtime", "learning_rate")


def parse_huggingface(text: str, state: RunState) -> bool:
    text = text.strip()
    if not (text.startswith("{'") and text.endswith("}") and "'epoch': " in text):
        return False
    values = [(match[1], float(match[3])) for match in _ITEM.finditer(text)]
    epoch = dict(values).get("epoch")
    if epoch is None or not any(name in _TRAINER_KEYS for name, _ in values):
        return False
    _update_position(epoch, state)
    _add_values([pair for pair in values if pair[0] not in ("epoch", "step", "global_step")], state)
    return True


def _update_position(epoch: float, state: RunState) -> None:
    if 0 <= epoch < 1e9:
        state.position.completed_epochs = int(epoch)


def _add_values(values: list[tuple[str, float]], state: RunState) -> None:
    at = state.now
    if "bars" in state.memory:
        state.hold_points(lambda step: state.add_points(step, values, at=at))
        return
    count = state.memory["trainer lines"] = state.memory.get("trainer lines", 0) + 1
    state.add_points(count, values)
