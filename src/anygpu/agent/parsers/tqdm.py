"""Parser for tqdm bars, also in Lightning: `Epoch 3: 50%|████ | 8/16 [00:01<00:01, 9.2it/s, loss=0.2]`."""

from __future__ import annotations

import re

from anygpu.agent.parsers import bars
from anygpu.agent.parsers.values import NUMBER, is_noise, pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

    Values = list[tuple[str, float]]

_COUNTS = re.compile(
    r"\s{0,4}([\d.]{1,20})([kMGTPE]?)/([\d.]{1,20})([kMGTPE]?)[^\[\d]{0,16}\[([^<\]]{1,24})<([^,\]]{1,24}),\s{0,2}([^,\]]{1,32})"
)
_NO_TOTAL = re.compile(r"(?:^|: )(\d{1,15})it \[([\d:]{1,12}), {1,2}([^,\]]{1,32})")
_ITEM = re.compile(r"\s{0,4}([A-Za-z_][\w@./() -]{0,79})=\s{0,4}(%s)%%?\s{0,8}$" % NUMBER)
_EPOCH = re.compile(r"\bepoch\W{0,3}(\d{1,9})(?:\s?(?:/|of)\s?(\d{1,9}))?", re.IGNORECASE)
_EPOCHS = re.compile(r"\bepochs?\b", re.IGNORECASE)
# Labels of bars that are not training, such as downloads.
_PREPARATION = re.compile(
    r"\b(?:(?:down|up)load|extract|unzip|unpack|fetch|load|cach|tokeniz|map\b|filter|scan|generating|resolv|prepar|"
    r"preprocess|convert|copy|copi|reading|writing|saving|import|verify|hash|decod|encod|install|index|flatten|"
    r"casting|sanity|predict|infer|running tokenizer|collect|sampling)",
    re.IGNORECASE,
)
_EVALUATION = re.compile(r"(?:\b|_)(val|eval|test|dev)(?:id\w*|uat\w*|ing|\b|_)", re.IGNORECASE)
_SCALE = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}


def parse_tqdm(text: str, state: RunState) -> bool | str:
    if "%|" in text:
        return _parse_bar(text, state)
    return "it [" in text and _parse_count(text, state)


def _parse_bar(text: str, state: RunState) -> bool | str:
    head, _, drawn = text.partition("%|")
    after = drawn.partition("|")[2]
    counts = _COUNTS.match(after)
    if not counts:
        return False
    label = head.rstrip("0123456789. ").strip(" :\t")
    postfix, closed, rest = after[counts.end() :].partition("]")
    if _is_training(label, counts[7]):
        values = _values(postfix) if closed else []  # a narrow terminal may cut a number
        _update(label, _count(counts[1], counts[2]), _count(counts[3], counts[4]), values, state)
    return rest.strip() or True


def _parse_count(text: str, state: RunState) -> bool | str:
    counts = _NO_TOTAL.search(text)
    if not counts:
        return False
    label = text[: counts.start()].strip(" :\t")
    postfix, closed, rest = text[counts.end() :].partition("]")
    if _is_training(label, counts[3]):
        _update(label, int(counts[1]), None, _values(postfix) if closed else [], state)
    return rest.strip() or True


def _is_training(label: str, rate: str) -> bool:
    return not rate.endswith("B/s") and not _PREPARATION.search(label)


def _update(label: str, count: int, total: int | None, postfix: Values, state: RunState) -> None:
    evaluation = _EVALUATION.search(label)
    epoch = _EPOCH.search(label)
    if evaluation:
        _add_evaluation(evaluation[1].lower(), count == total, postfix, state)
    elif epoch:
        _update_epoch(epoch, label, count, total, postfix, state)
    elif total and _EPOCHS.search(label):
        bars.bars_of(state).draw_epochs(count, total)
        state.add_points(state.position.step_for_epoch(count), postfix if count else [], changed_only=True)
    else:
        _update_steps(label, count, total, postfix, state)


def _update_epoch(
    epoch: re.Match[str],
    label: str,
    count: int,
    total: int | None,
    postfix: Values,
    state: RunState,
) -> None:
    position = state.position
    if any(name == "v_num" for name, _ in postfix):
        position.zero_based = True  # only Lightning shows v_num, and it counts from 0
    ordinal = position.epoch_number(int(epoch[1]))
    if position.running_epoch != ordinal:
        position.start_epoch(ordinal, int(epoch[2]) if epoch[2] else None)
    _update_steps(_EPOCH.sub("epoch", label), count, total, postfix, state)


def _update_steps(label: str, count: int, total: int | None, postfix: Values, state: RunState) -> None:
    waiting = state.awaits_step
    bar = bars.bars_of(state).draw(label, count, total, has_metrics=waiting or _has_metrics(postfix))
    step = state.position.step
    if waiting:
        state.release_points(step)
    values = [(name, value) for name, value in postfix if not is_noise(name)]
    if bar.should_report() and state.add_points(step, values, changed_only=True):
        bar.reported_count = count


def _add_evaluation(split: str, done: bool, postfix: Values, state: RunState) -> None:
    """Add the final metrics of a progress bar over validation data. Such a bar is not training progress."""
    if done:
        named = [(name if _EVALUATION.search(name) else f"{split}_{name}", value) for name, value in postfix]
        state.add_points(
            state.position.current_step(),
            [pair for pair in named if not is_noise(pair[0])],
            changed_only=True,
        )


def _has_metrics(postfix: Values) -> bool:
    return any(not is_noise(name) for name, _ in postfix)


def _values(postfix: str) -> Values:
    items = [_ITEM.match(item) for item in postfix.split(",")]
    found = [(item[1].replace(" ", "_"), float(item[2])) for item in items if item]
    return found or [(pair.name, pair.value) for pair in pairs(postfix)]


def _count(digits: str, scale: str) -> int:
    return int(float(digits) * _SCALE[scale])
