"""Parser for PyTorch's examples and tutorials: MNIST, ImageNet, the quickstart, the classifier."""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

_TEST_SET = re.compile(r"\s{0,4}Test set: Average loss: (%s), Accuracy: (\d{1,12})/(\d{1,12}) " % NUMBER)
_METERS = re.compile(r"\s{0,4}(Epoch: \[(\d{1,9})\]|Test: )\[\s{0,8}(\d{1,12})/\s{0,8}(\d{1,12})\]\t(.*)")
_METER = re.compile(r"([A-Za-z]\w{0,40}(?:@\d{1,3})?)\s{1,4}(%s) \(\s{0,8}%s\)" % (NUMBER, NUMBER))
_SUMMARY = re.compile(r"\s{0,4}\*\s{1,4}(Acc@.*)")
_SCORE = re.compile(r"(Acc@\d{1,3}) (%s)" % NUMBER)
_QUICKSTART = re.compile(r"loss: (%s)\s{1,4}\[\s{0,8}(\d{1,12})/\s{0,8}(\d{1,12})\]$" % NUMBER)
_CLASSIFIER = re.compile(r"\[(\d{1,9}),\s{1,8}(\d{1,12})\] loss: (%s)$" % NUMBER)
_CLOCKS = ("Time", "Data")


def parse_pytorch(text: str, state: RunState) -> bool:
    return any(
        parse(text, state)
        for parse in (_parse_test_set, _parse_meters, _parse_summary, _parse_quickstart, _parse_classifier)
    )


def _parse_test_set(text: str, state: RunState) -> bool:
    line = _TEST_SET.match(text)
    if line:
        right, total = int(line[2]), int(line[3])
        accuracy = [("test_accuracy", right / total)] if total else []
        state.add_points(state.position.current_step(), [("test_loss", float(line[1])), *accuracy])
    return bool(line)


def _parse_meters(text: str, state: RunState) -> bool:
    """Parse `Epoch: [0][  10/5005]	Time 0.5 (0.6)	Loss 6.9e+00 (7.0e+00)	Acc@1   0.00 (  0.10)`."""
    line = _METERS.match(text)
    if not line:
        return False
    meters = [(m[1].lower(), float(m[2])) for m in _METER.finditer(line[5]) if m[1] not in _CLOCKS]
    if line[2] is not None and meters:
        ordinal = state.position.epoch_number(int(line[2]))
        state.add_points(state.position.advance_in_epoch(ordinal, int(line[3]), int(line[4])), meters)
    return True


def _parse_summary(text: str, state: RunState) -> bool:
    """Parse ` *   Acc@1 30.1 Acc@5 55.2` after the validation of an epoch."""
    line = _SUMMARY.match(text)
    if line:
        state.add_points(
            state.position.current_step(),
            [(f"val_{m[1].lower()}", float(m[2])) for m in _SCORE.finditer(line[1])],
        )
    return bool(line)


def _parse_quickstart(text: str, state: RunState) -> bool:
    """Parse `loss: 2.303494  [   64/60000]` below a line `Epoch 1`."""
    line = _QUICKSTART.match(text)
    ordinal = state.position.running_epoch
    if not line or ordinal is None:
        return False
    state.add_points(
        state.position.advance_in_epoch(ordinal, int(line[2]), int(line[3])), [("loss", float(line[1]))]
    )
    return True


def _parse_classifier(text: str, state: RunState) -> bool:
    """Parse `[1,  2000] loss: 2.201`: epoch and batch."""
    line = _CLASSIFIER.match(text)
    if line:
        state.position.start_epoch(state.position.epoch_number(int(line[1])))
        step = state.position.set_step(state.position.unroll_step(int(line[2]), in_epoch=True))
        state.add_points(step, [("loss", float(line[3]))])
    return bool(line)
