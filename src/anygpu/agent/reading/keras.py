"""Keras: `Epoch 3/10`, then `1563/1563 ━━━━ 10s 6ms/step - accuracy: 0.9 - loss: 0.2 - val_loss: 0.3`."""

from __future__ import annotations

import re

from anygpu.agent.reading.bars import Bar
from anygpu.agent.reading.values import NUMBER, NUMBER_ENDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.reading.run import Run

# Keras 3 draws ━, Keras 2 draws [===>...], and verbose=2 draws nothing.
_BAR = re.compile(
    r"\s{0,8}(\d{1,12})/(\d{1,12}|Unknown) (?:[━ ]{1,80}|\[[=>.]{1,80}\] |)(?:- )?"
    r"(?:ETA: [\d:smh]{1,12}|\d{1,9}[smh]?)"
    r"(?: (?:- )?\d{1,9}(?:us|ms|s|m|h)/(?:step|epoch|sample))?(?P<values>$|\s{1,4}- .*)"
)
_VALUE = re.compile(r"- ([^\s:][^:]{0,99}): {1,4}(%s)%s" % (NUMBER, NUMBER_ENDS))


def read(text: str, run: Run) -> bool:
    bar = _BAR.match(text) if "/" in text else None
    if not bar:
        return False
    done = int(bar[1])
    of = int(bar[2]) if bar[2].isdigit() else None
    values = [(match[1].strip(), float(match[2])) for match in _VALUE.finditer(bar["values"])]
    if _in_training(done, of, run):
        _trained(done, of, values, run)
    elif done == of:
        run.points(run.course.here(), [(f"eval_{name}", value) for name, value in values], changed_only=True)
    return True


def _in_training(done: int, of: int | None, run: Run) -> bool:
    """`evaluate` and `predict` draw the same bar, but no `Epoch` line opens it."""
    ordinal = run.course.running
    finished = run.memory.get("keras finished")
    return ordinal is not None and (
        finished is None or finished == (ordinal, done, of) or finished[0] != ordinal
    )


def _trained(done: int, of: int | None, values: list[tuple[str, float]], run: Run) -> None:
    course = run.course
    ordinal = course.running or 1
    step = course.in_epoch(ordinal, done, of)
    bar = _bar(of, run)
    bar.draw(done)
    if bar.has_news() and run.points(step, values, changed_only=True):
        bar.told = done
    if done == of:
        run.memory["keras finished"] = (ordinal, done, of)


def _bar(of: int | None, run: Run) -> Bar:
    bar = run.memory.get("keras bar")
    if not isinstance(bar, Bar) or bar.total != of:
        bar = run.memory["keras bar"] = Bar(of)
    return bar
