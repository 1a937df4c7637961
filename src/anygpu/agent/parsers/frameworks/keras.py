"""Parser for Keras: `Epoch 3/10`, then `1563/1563 ━━━━ 10s 6ms/step - accuracy: 0.9 - loss: 0.2 - val_loss: 0.3`."""

from __future__ import annotations

import re

from anygpu.agent.parsers.bars import ProgressBar
from anygpu.agent.parsers.values import NUMBER, NUMBER_ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

# Keras 3 draws ━, Keras 2 draws [===>...], and verbose=2 draws nothing.
_BAR = re.compile(
    r"\s{0,8}(\d{1,12})/(\d{1,12}|Unknown) (?:[━ ]{1,80}|\[[=>.]{1,80}\] |)(?:- )?"
    r"(?:ETA: [\d:smh]{1,12}|\d{1,9}[smh]?)"
    r"(?: (?:- )?\d{1,9}(?:us|ms|s|m|h)/(?:step|epoch|sample))?(?P<values>$|\s{1,4}- .*)"
)
_VALUE = re.compile(r"- ([^\s:][^:]{0,99}): {1,4}(%s)%s" % (NUMBER, NUMBER_ENDS))


def parse_keras(text: str, state: RunState) -> bool:
    bar = _BAR.match(text) if "/" in text else None
    if not bar:
        return False
    done = int(bar[1])
    of = int(bar[2]) if bar[2].isdigit() else None
    values = [(match[1].strip(), float(match[2])) for match in _VALUE.finditer(bar["values"])]
    if _is_training(done, of, state):
        _add_training(done, of, values, state)
    elif done == of:
        state.add_points(
            state.position.current_step(),
            [(f"eval_{name}", value) for name, value in values],
            changed_only=True,
        )
    return True


def _is_training(done: int, of: int | None, state: RunState) -> bool:
    """Return whether the progress bar is from `fit`.

    `evaluate` and `predict` print the same bar, but without an `Epoch` line before it.
    """
    ordinal = state.position.running_epoch
    finished = state.memory.get("keras finished")
    return ordinal is not None and (
        finished is None or finished == (ordinal, done, of) or finished[0] != ordinal
    )


def _add_training(done: int, of: int | None, values: list[tuple[str, float]], state: RunState) -> None:
    position = state.position
    ordinal = position.running_epoch or 1
    step = position.advance_in_epoch(ordinal, done, of)
    bar = _bar(of, state)
    bar.update(done)
    if bar.should_report() and state.add_points(step, values, changed_only=True):
        bar.reported_count = done
    if done == of:
        state.memory["keras finished"] = (ordinal, done, of)


def _bar(of: int | None, state: RunState) -> ProgressBar:
    bar = state.memory.get("keras bar")
    if not isinstance(bar, ProgressBar) or bar.total != of:
        bar = state.memory["keras bar"] = ProgressBar(of)
    return bar
