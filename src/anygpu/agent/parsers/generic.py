"""Parser for lines of no particular framework: `Epoch: 3/10 loss=0.21`, `epoch=3 step=100 loss=0.2`."""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import is_setting, pairs, spaced_pairs, starts_with_pair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState
    from anygpu.agent.parsers.values import Pair

_EPOCH = re.compile(
    r"(?<![\w/.?&-])epoch(?:\(\w{1,12}\))?['\"]?\s{0,3}[:=#]?\s{0,3}\[?\s{0,3}"
    r"(?P<epoch>\d{1,9})(?:\s{0,3}(?:/|of\s)\s{0,3}(?P<epochs>\d{1,9}))?"
    r"(?!\.?\d)(?:\s{0,2}\]?[,:]?\s{0,2}\[\s{0,8}(?P<done>\d{1,12})\s{0,2}/\s{0,8}(?P<of>\d{1,12}))?"
)
_STEP = re.compile(
    r"(?<![\w/.?&-])(?P<word>global[_ ]?step|step|iter|iteration|itr|batch|round|update|num_updates)['\"]?"
    r"\s{0,3}[:=#]?\s{0,10}\[?\s{0,10}(?P<done>\d{1,12})(?:\s{0,3}(?:/|of\s)\s{0,10}(?P<of>\d{1,12}))?(?!\.?\d)"
)
_BATCHES = re.compile(r"\s(?P<done>\d{1,12})/\s{0,8}(?P<of>\d{1,12}) (?P<word>batch)es")
_STEP_WORDS = ("step", "iter", "itr", "batch", "round", "update")
_BRACKETED = re.compile(r"\[[^\[\]]{0,200}\]")
_WORD = re.compile(r"[A-Za-z]{2,}")
_CALL = re.compile(r"\w\($")
_PAST_EVENT = re.compile(
    r"\b(?:best|restor|resum|load|sav|checkpoint|from|early|since|improv)", re.IGNORECASE
)
_FINISHED = re.compile(r"\b(?:finish|complet|done|end\b|ended)", re.IGNORECASE)
_ALNUM = re.compile(r"\w")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_QUOTED = re.compile(r"['\"{}]")
_DOCKER = re.compile(r"step \d{1,4}/\d{1,4} : ")


def parse_generic(text: str, state: RunState) -> bool:
    lowered = text.lower()
    epoch = _EPOCH.search(lowered) if "epoch" in lowered else None
    step = _step(lowered, bool(epoch)) if any(word in lowered for word in _STEP_WORDS) else None
    if epoch is None and step is None and not starts_with_pair(text):
        return False
    found = pairs(text) or (spaced_pairs(text) if epoch or step else [])
    if epoch and not found:
        return _parse_header(text, epoch, state)
    if not found or _is_prose(text[: min(_starts(epoch, step, found))]):
        return False
    if epoch or step:
        return _has_training_values(found, bool(epoch)) and _parse_line(epoch, step, found, state)
    return _parse_bare(text, found, state)


def _starts(epoch: re.Match[str] | None, step: re.Match[str] | None, found: list[Pair]) -> list[int]:
    return [match.start() for match in (epoch, step) if match] + [found[0].start]


def _step(text: str, has_epoch: bool) -> re.Match[str] | None:
    """Find the step in a line; None if there is none.

    `batch 4/100` is a step. `batch=4` is a setting, and `Step 4/10 : ENV LR=0.1` is output of Docker.
    """
    step = None if _DOCKER.match(text) else (_STEP.search(text) or _BATCHES.search(text))
    if step and not has_epoch and not step["of"] and step["word"] in ("batch", "round", "update"):
        return None
    return step


def _is_prose(before: str) -> bool:
    """Return whether the text before the values is prose. A time, a log level and a module name are not prose."""
    words = _WORD.findall(_BRACKETED.sub("", before))
    return len(words) > 2 or bool(_CALL.search(before) or _PAST_EVENT.search(before))


def _has_training_values(found: list[Pair], has_epoch: bool) -> bool:
    if has_epoch:
        return any(pair.is_metric or not pair.is_whole_number for pair in found)
    return any((pair.is_metric or is_setting(pair.name)) and not pair.is_whole_number for pair in found)


def _parse_header(text: str, epoch: re.Match[str], state: RunState) -> bool:
    """Parse a line such as `Epoch 3/10` that has no metrics.

    Unless the line says that the epoch is finished, it means that epoch 3 starts and two epochs are complete.
    """
    before, after = text[: epoch.start()], text[epoch.end() :]
    if _is_prose(before) or _QUOTED.search(text) or _LETTER_OR_DIGIT.search(after):
        return False
    ordinal, total = state.position.epoch_number(int(epoch["epoch"])), _int(epoch["epochs"])
    if epoch["done"]:
        state.position.set_epoch_count(total, ordinal)
        state.position.advance_in_epoch(ordinal, int(epoch["done"]), int(epoch["of"]))
    elif _FINISHED.search(before):
        state.position.end_epoch(ordinal, total)
    else:
        state.position.start_epoch(ordinal, total)
    return True


def _parse_line(
    epoch: re.Match[str] | None, step: re.Match[str] | None, found: list[Pair], state: RunState
) -> bool:
    at = _epoch_and_step(epoch, step, state) if epoch else _step_alone(step, state)
    state.add_points(at, [(pair.name, pair.value) for pair in found])
    return True


def _epoch_and_step(epoch: re.Match[str], step: re.Match[str] | None, state: RunState) -> int:
    position = state.position
    ordinal, total = position.epoch_number(int(epoch["epoch"])), _int(epoch["epochs"])
    batch = epoch if epoch["done"] else step
    if batch is None:
        position.end_epoch(ordinal, total)
        return position.step_for_epoch(ordinal)
    position.set_epoch_count(total, ordinal)
    if batch["of"]:
        return position.advance_in_epoch(ordinal, int(batch["done"]), int(batch["of"]))
    position.start_epoch(ordinal, total)
    return position.set_step(position.unroll_step(int(batch["done"]), in_epoch=True))


def _step_alone(step: re.Match[str] | None, state: RunState) -> int | None:
    if step is None:
        return state.position.current_step()
    done, of = int(step["done"]), _int(step["of"])
    if state.position.running_epoch is not None and of:
        return state.position.advance_in_epoch(state.position.running_epoch, done, of)
    return state.position.set_step(state.position.unroll_step(done), of, done / of if of else None)


def _parse_bare(text: str, found: list[Pair], state: RunState) -> bool:
    """Parse a line that has metrics but no epoch and no step.

    Return False unless the line contains nothing but well-known metrics.
    """
    if not all(pair.is_surely_metric for pair in found):
        return False
    rest = text
    for pair in reversed(found):
        rest = rest[: pair.start] + rest[pair.end :]
    if _ALNUM.search(rest):
        return False
    state.add_points(state.position.current_step(), [(pair.name, pair.value) for pair in found])
    return True


def _int(digits: str | None) -> int | None:
    return int(digits) if digits else None
