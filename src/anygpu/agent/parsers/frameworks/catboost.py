"""Parser for CatBoost: `100:      learn: 0.35     test: 0.41      best: 0.40 (96) total: 1.5s     remaining: 4.2s`."""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.parsers.state import RunState

_LINE = re.compile(
    r"\s{0,8}(\d{1,12}):\s{1,16}(.{1,2000}?)\s{1,16}total: ([\d.hmsu ]{1,24}?)\s{1,16}remaining: ([\d.hmsu ]{1,24})$"
)
_SCORE = re.compile(r"(learn|test\d{0,3}|best): (%s)(?:\s\(\d{1,12}\))?(?:\s{1,16}|$)" % NUMBER)
_TIME = re.compile(r"([\d.]{1,20})(h|ms|m|us|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}


def parse_catboost(text: str, state: RunState) -> bool:
    line = _LINE.match(text)
    scores = [(score[1], float(score[2])) for score in _SCORE.finditer(line[2])] if line else []
    if line is None or not scores:
        return False
    step = state.position.set_step(int(line[1]), whole=_fraction(_seconds(line[3]), _seconds(line[4])))
    state.add_points(step, scores)
    return True


def _fraction(total_s: float, remaining_s: float) -> float | None:
    """Return the completed fraction of the run. CatBoost computes the remaining time from its iterations."""
    return total_s / (total_s + remaining_s) if total_s else None


def _seconds(printed: str) -> float:
    return sum(float(number) * _SECONDS[unit] for number, unit in _TIME.findall(printed))
