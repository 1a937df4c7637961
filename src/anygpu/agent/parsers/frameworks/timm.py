"""Parser for timm's train.py: `Train: 0 [  50/1251 (  4%)]  Loss: 6.9 (6.93)  Time: 0.3s, 830/s  LR: 1.000e-06`."""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

BEST = "*** Best metric: "
_TRAIN = re.compile(
    r"Train:\s{1,8}(\d{1,9})(?:/(\d{1,9}) \(\s{0,3}\d{1,3}%\))?\s{1,4}"
    r"\[\s{0,8}(\d{1,12})/(\d{1,12}) \(\s{0,3}\d{1,3}%\)\](.*)"
)
_TEST = re.compile(r"Test(?: \((\w{1,20})\))?:\s{1,4}\[\s{0,8}(\d{1,12})/(\d{1,12})\]\s{1,4}(Time:.*)")
_SCHEDULE = re.compile(r"Scheduled epochs: (\d{1,9})\. ")
_METER = re.compile(
    r"(Loss|LR|Acc@\d{1,3}):\s{1,8}(%s)(?:\s{1,4}\(\s{0,8}(%s)\))?(?=\s|$)" % (NUMBER, NUMBER)
)


def parse_timm(text: str, state: RunState) -> bool:
    if text.startswith(BEST):
        return True  # repeats a score of an earlier validation
    return _parse_training(text, state) or _parse_validation(text, state) or _parse_schedule(text, state)


def _parse_training(text: str, state: RunState) -> bool:
    line = _TRAIN.match(text)
    if not line:
        return False
    position = state.position
    if line[2] is None:
        position.zero_based = True  # without a total, timm counts epochs from 0
    ordinal = position.epoch_number(int(line[1]))
    position.set_epoch_count(int(line[2]) if line[2] else None, ordinal)
    step = position.advance_in_epoch(ordinal, int(line[3]) + 1, int(line[4]))
    state.add_points(step, [(meter[1].lower(), float(meter[2])) for meter in _METER.finditer(line[5])])
    return True


def _parse_validation(text: str, state: RunState) -> bool:
    """Parse the lines of a validation. Only the last has the averages over all batches."""
    line = _TEST.match(text)
    if not line:
        return False
    split = f"val_{line[1].lower()}" if line[1] else "val"
    if line[2] == line[3]:
        found = [(meter[1].lower(), float(meter[3])) for meter in _METER.finditer(line[4]) if meter[3]]
        state.add_points(state.position.current_step(), [(f"{split}_{name}", value) for name, value in found])
    return True


def _parse_schedule(text: str, state: RunState) -> bool:
    line = _SCHEDULE.match(text)
    if line:
        state.position.set_epoch_count(int(line[1]))
    return bool(line)
