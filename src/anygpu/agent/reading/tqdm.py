"""tqdm's bars, Lightning's among them: `Epoch 3: 50%|████ | 8/16 [00:01<00:01, 9.2it/s, loss=0.2]`."""

from __future__ import annotations

import re

from anygpu.agent.reading import bars
from anygpu.agent.reading.values import NUMBER, is_noise, pairs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.reading.run import Run

    Values = list[tuple[str, float]]

_COUNTS = re.compile(
    r"\s{0,4}([\d.]{1,20})([kMGTPE]?)/([\d.]{1,20})([kMGTPE]?)[^\[\d]{0,16}\[([^<\]]{1,24})<([^,\]]{1,24}),\s{0,2}([^,\]]{1,32})"
)
_NO_TOTAL = re.compile(r"(?:^|: )(\d{1,15})it \[([\d:]{1,12}), {1,2}([^,\]]{1,32})")
_ITEM = re.compile(r"\s{0,4}([A-Za-z_][\w@./() -]{0,79})=\s{0,4}(%s)%%?\s{0,8}$" % NUMBER)
_EPOCH = re.compile(r"\bepoch\W{0,3}(\d{1,9})(?:\s?(?:/|of)\s?(\d{1,9}))?", re.IGNORECASE)
_EPOCHS = re.compile(r"\bepochs?\b", re.IGNORECASE)
# Work around the training, by the words people and libraries give its bars.
_PREPARATION = re.compile(
    r"\b(?:(?:down|up)load|extract|unzip|unpack|fetch|load|cach|tokeniz|map\b|filter|scan|generating|resolv|prepar|"
    r"preprocess|convert|copy|copi|reading|writing|saving|import|verify|hash|decod|encod|install|index|flatten|"
    r"casting|sanity|predict|infer|running tokenizer|collect|sampling)",
    re.IGNORECASE,
)
_EVALUATION = re.compile(r"(?:\b|_)(val|eval|test|dev)(?:id\w*|uat\w*|ing|\b|_)", re.IGNORECASE)
_SCALE = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}


def read(text: str, run: Run) -> bool | str:
    if "%|" in text:
        return _read_bar(text, run)
    return "it [" in text and _read_count(text, run)


def _read_bar(text: str, run: Run) -> bool | str:
    head, _, drawn = text.partition("%|")
    after = drawn.partition("|")[2]
    counts = _COUNTS.match(after)
    if not counts:
        return False
    label = head.rstrip("0123456789. ").strip(" :\t")
    postfix, closed, rest = after[counts.end() :].partition("]")
    if _is_training(label, counts[7]):
        values = _values(postfix) if closed else []  # a narrow terminal cuts the line, and a number in it
        _draw(label, _count(counts[1], counts[2]), _count(counts[3], counts[4]), values, run)
    return rest.strip() or True


def _read_count(text: str, run: Run) -> bool | str:
    counts = _NO_TOTAL.search(text)
    if not counts:
        return False
    label = text[: counts.start()].strip(" :\t")
    postfix, closed, rest = text[counts.end() :].partition("]")
    if _is_training(label, counts[3]):
        _draw(label, int(counts[1]), None, _values(postfix) if closed else [], run)
    return rest.strip() or True


def _is_training(label: str, rate: str) -> bool:
    return not rate.endswith("B/s") and not _PREPARATION.search(label)


def _draw(label: str, count: int, total: int | None, postfix: Values, run: Run) -> None:
    evaluation = _EVALUATION.search(label)
    epoch = _EPOCH.search(label)
    if evaluation:
        _evaluated(evaluation[1].lower(), count == total, postfix, run)
    elif epoch:
        _draw_epoch(epoch, label, count, total, postfix, run)
    elif total and _EPOCHS.search(label):
        bars.of(run).draw_epochs(count, total)
        run.points(run.course.for_epoch(count), postfix if count else [], changed_only=True)
    else:
        _draw_steps(label, count, total, postfix, run)


def _draw_epoch(
    epoch: re.Match[str],
    label: str,
    count: int,
    total: int | None,
    postfix: Values,
    run: Run,
) -> None:
    course = run.course
    if any(name == "v_num" for name, _ in postfix):
        course.zero_based = True  # only Lightning shows v_num, and it counts from 0
    ordinal = course.ordinal(int(epoch[1]))
    if course.running != ordinal:
        course.epoch_starts(ordinal, int(epoch[2]) if epoch[2] else None)
    _draw_steps(_EPOCH.sub("epoch", label), count, total, postfix, run)


def _draw_steps(label: str, count: int, total: int | None, postfix: Values, run: Run) -> None:
    waiting = run.awaits_step
    bar = bars.of(run).draw(label, count, total, has_metrics=waiting or _has_metrics(postfix))
    step = run.course.step
    if waiting:
        run.release(step)
    values = [(name, value) for name, value in postfix if not is_noise(name)]
    if bar.has_news() and run.points(step, values, changed_only=True):
        bar.told = count


def _evaluated(split: str, done: bool, postfix: Values, run: Run) -> None:
    """A bar over validation data says nothing of the training's progress; where it ends, its values count."""
    if done:
        named = [(name if _EVALUATION.search(name) else f"{split}_{name}", value) for name, value in postfix]
        run.points(run.course.here(), [pair for pair in named if not is_noise(pair[0])], changed_only=True)


def _has_metrics(postfix: Values) -> bool:
    return any(not is_noise(name) for name, _ in postfix)


def _values(postfix: str) -> Values:
    items = [_ITEM.match(item) for item in postfix.split(",")]
    found = [(item[1].replace(" ", "_"), float(item[2])) for item in items if item]
    return found or [(pair.name, pair.value) for pair in pairs(postfix)]


def _count(digits: str, scale: str) -> int:
    return int(float(digits) * _SCALE[scale])
