"""Parsers for XGBoost, LightGBM and scikit-learn output."""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

_ROUND = re.compile(r"(?:\[\d\d:\d\d:\d\d\]\s{1,4})?\[(\d{1,12})\]\t(.*)")
# In cross-validation the mean is followed by its deviation, which is ignored.
_SCORE = re.compile(r"([^\t:]{1,120}):\s?(%s)(?:\s?\+\s?%s)?$" % (NUMBER, NUMBER))


def parse_boosting(text: str, state: RunState) -> bool:
    line = _ROUND.match(text) if "]\t" in text else None
    if not line:
        return False
    scores = [_SCORE.match(part.strip()) for part in line[2].split("\t")]
    found = [(_metric_name(score[1]), float(score[2])) for score in scores if score]
    if not found or len(found) < len(scores):
        return False
    state.position.step_unit = "count"  # boosting that continues a model counts from 0 again
    state.add_points(state.position.set_step(int(line[1])), found)
    return True


def _metric_name(printed: str) -> str:
    """Convert LightGBM's metric name `valid_0's l2` to `valid_0-l2`, the form that XGBoost uses."""
    return "-".join(part.strip().replace(" ", "_") for part in printed.split("'s ", 1))


_INERTIA = re.compile(r"Iteration (\d{1,12}), inertia (%s)\.?$" % NUMBER)
_SGD = re.compile(
    r"Norm: (%s), NNZs: \d{1,12}, Bias: %s, T: \d{1,15}, Avg\. loss: (%s)" % (NUMBER, NUMBER, NUMBER)
)
_OBJECTIVE = re.compile(r", Objective: (%s)$" % NUMBER)


def parse_sklearn(text: str, state: RunState) -> bool:
    return _parse_kmeans(text, state) if "inertia" in text else _parse_sgd(text, state)


def _parse_kmeans(text: str, state: RunState) -> bool:
    line = _INERTIA.match(text)
    if line:
        state.position.step_unit = "count"
        state.add_points(state.position.set_step(int(line[1])), [("inertia", float(line[2]))])
    return bool(line)


def _parse_sgd(text: str, state: RunState) -> bool:
    """Parse scikit-learn's line at the end of an epoch. A line `-- Epoch 3` comes before it."""
    line = _SGD.match(text)
    if not line or state.position.running_epoch is None:
        return False
    ordinal = state.position.running_epoch
    state.position.end_epoch(ordinal)
    objective = _OBJECTIVE.search(text)
    found = [("norm", float(line[1])), ("avg_loss", float(line[2]))]
    state.add_points(ordinal, found + ([("objective", float(objective[1]))] if objective else []))
    return True
