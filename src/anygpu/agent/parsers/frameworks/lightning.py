"""Parser for Lightning's rich progress bar, its table of test results, and the message at the end of `fit`.

Lightning's tqdm bar is parsed in tqdm.py.
"""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import NUMBER, is_noise, pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

_RICH_BAR = re.compile(
    r"\s{0,4}(\w[\w ]{0,40}?)(?: (\d{1,9})/(\d{1,9}|-2))?\s{1,4}[━╸╺╍ ]{3,400}\s"
    r"(\d{1,12})/(\d{1,12}|--)\s{1,12}"
    r"[\d:-]{4,12} • [\d:-]{4,12} [\d.]{1,20}it/s(.*)"
)
_TABLE_ROW = re.compile(r"[│|]\s{0,80}([^\s│|]{1,100})\s{0,80}[│|]\s{0,80}(%s)\s{0,80}[│|]$" % NUMBER)
_STOPPED = re.compile(r"`Trainer\.fit` stopped: `max_epochs=(\d{1,9})` reached")
_ALNUM = re.compile(r"\w")


def parse_lightning(text: str, state: RunState) -> bool | str:
    return (
        _parse_rich_bar(text, state)
        or _parse_continuation(text, state)
        or _parse_stop(text, state)
        or _parse_table(text, state)
    )


def _parse_rich_bar(text: str, state: RunState) -> bool | str:
    bar = _RICH_BAR.match(text) if " • " in text else None
    state.memory["rich bar"] = (bar is not None and bar[1] == "Epoch") or _is_continuation(text, state)
    if not bar:
        return False
    if bar[1] == "Epoch" and bar[2] and bar[5].isdigit():
        _advance(int(bar[2]), bar[3], int(bar[4]), int(bar[5]), state)
        _add_values(bar[6], state)
        return True
    return bar[6].strip() or True


def _advance(epoch: int, last: str, done: int, total: int, state: RunState) -> None:
    """Update the position of the run from a rich progress bar `Epoch 3/9`. The bar counts epochs from 0.

    `last` is the number of the last epoch, or -2 if the number of epochs is not limited.
    """
    state.position.zero_based = True
    if last.isdigit():
        state.position.set_epoch_count(int(last) + 1)
    state.position.advance_in_epoch(epoch + 1, done, total)


def _is_continuation(text: str, state: RunState) -> bool:
    """Return whether the line continues a rich progress bar.

    Rich prints the values that do not fit beside the bar on indented lines below it.
    """
    if not (state.memory.get("rich bar") and text.startswith("  ")):
        return False
    rest = text
    for pair in reversed(pairs(text)):
        rest = rest[: pair.start] + rest[pair.end :]
    return rest != text and not _ALNUM.search(rest)


def _parse_continuation(text: str, state: RunState) -> bool:
    more = _is_continuation(text, state)
    if more:
        _add_values(text, state)
    return more


def _add_values(values: str, state: RunState) -> None:
    if state.position.step:
        found = [(pair.name, pair.value) for pair in pairs(values) if not is_noise(pair.name)]
        state.add_points(state.position.step, found, changed_only=True)


def _parse_stop(text: str, state: RunState) -> bool:
    stopped = _STOPPED.search(text)
    if stopped:
        state.position.end_epoch(int(stopped[1]), int(stopped[1]))
        state.position.step_count = state.position.step
    return bool(stopped)


def _parse_table(text: str, state: RunState) -> bool:
    """Parse `│ test_loss │ 0.086 │` below a header with `Test metric` or `Validate metric`."""
    if "DataLoader" in text and " metric " in text:
        state.memory["metric table"] = True
        return True
    row = _TABLE_ROW.match(text.strip()) if state.memory.get("metric table") else None
    if row:
        state.add_points(state.position.current_step(), [(row[1], float(row[2]))])
    return row is not None
