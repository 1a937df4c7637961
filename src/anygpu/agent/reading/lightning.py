"""Lightning beside its tqdm bar: the rich bar, the table of a test, and the line that ends a fit."""

from __future__ import annotations

import re

from anygpu.agent.reading.values import NUMBER, is_noise, pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.reading.run import Run

_RICH_BAR = re.compile(
    r"\s{0,4}(\w[\w ]{0,40}?)(?: (\d{1,9})/(\d{1,9}|-2))?\s{1,4}[━╸╺╍ ]{3,400}\s"
    r"(\d{1,12})/(\d{1,12}|--)\s{1,12}"
    r"[\d:-]{4,12} • [\d:-]{4,12} [\d.]{1,20}it/s(.*)"
)
_TABLE_ROW = re.compile(r"[│|]\s{0,80}([^\s│|]{1,100})\s{0,80}[│|]\s{0,80}(%s)\s{0,80}[│|]$" % NUMBER)
_STOPPED = re.compile(r"`Trainer\.fit` stopped: `max_epochs=(\d{1,9})` reached")
_ALNUM = re.compile(r"\w")


def read(text: str, run: Run) -> bool | str:
    return _read_bar(text, run) or _read_more(text, run) or _read_stop(text, run) or _read_table(text, run)


def _read_bar(text: str, run: Run) -> bool | str:
    bar = _RICH_BAR.match(text) if " • " in text else None
    run.memory["rich bar"] = (bar is not None and bar[1] == "Epoch") or _is_more(text, run)
    if not bar:
        return False
    if bar[1] == "Epoch" and bar[2] and bar[5].isdigit():
        _trained(int(bar[2]), bar[3], int(bar[4]), int(bar[5]), run)
        _tell(bar[6], run)
        return True
    return bar[6].strip() or True


def _trained(epoch: int, last: str, done: int, of: int, run: Run) -> None:
    """The rich bar counts from 0 and shows the last epoch's number, or -2 where there is no last one."""
    run.course.zero_based = True
    if last.isdigit():
        run.course.set_epochs(int(last) + 1)
    run.course.in_epoch(epoch + 1, done, of)


def _is_more(text: str, run: Run) -> bool:
    """Values that did not fit beside a rich bar stand under it, indented, on lines of their own."""
    if not (run.memory.get("rich bar") and text.startswith("  ")):
        return False
    rest = text
    for pair in reversed(pairs(text)):
        rest = rest[: pair.start] + rest[pair.end :]
    return rest != text and not _ALNUM.search(rest)


def _read_more(text: str, run: Run) -> bool:
    more = _is_more(text, run)
    if more:
        _tell(text, run)
    return more


def _tell(values: str, run: Run) -> None:
    if run.course.step:
        found = [(pair.name, pair.value) for pair in pairs(values) if not is_noise(pair.name)]
        run.points(run.course.step, found, changed_only=True)


def _read_stop(text: str, run: Run) -> bool:
    stopped = _STOPPED.search(text)
    if stopped:
        run.course.epoch_ends(int(stopped[1]), int(stopped[1]))
        run.course.steps = run.course.step
    return bool(stopped)


def _read_table(text: str, run: Run) -> bool:
    """`│ test_loss │ 0.086 │` under a head that says `Test metric` or `Validate metric`."""
    if "DataLoader" in text and " metric " in text:
        run.memory["metric table"] = True
        return True
    row = _TABLE_ROW.match(text.strip()) if run.memory.get("metric table") else None
    if row:
        run.points(run.course.here(), [(row[1], float(row[2]))])
    return row is not None
