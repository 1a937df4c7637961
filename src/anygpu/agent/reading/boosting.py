"""XGBoost's `[12]	train-rmse:0.1	eval-rmse:0.2` and LightGBM's `[10]	valid_0's l2: 0.24`.

One file for both: they print the same line but for the way a name is joined to its data set.
"""

from __future__ import annotations

import re

from anygpu.agent.reading.values import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.reading.run import Run

_ROUND = re.compile(r"(?:\[\d\d:\d\d:\d\d\]\s{1,4})?\[(\d{1,12})\]\t(.*)")
# In cross-validation a deviation follows the mean; the mean is the point.
_SCORE = re.compile(r"([^\t:]{1,120}):\s?(%s)(?:\s?\+\s?%s)?$" % (NUMBER, NUMBER))


def read(text: str, run: Run) -> bool:
    line = _ROUND.match(text) if "]\t" in text else None
    if not line:
        return False
    scores = [_SCORE.match(part.strip()) for part in line[2].split("\t")]
    found = [(_name(score[1]), float(score[2])) for score in scores if score]
    if not found or len(found) < len(scores):
        return False
    run.points(run.course.at_step(int(line[1])), found)
    return True


def _name(printed: str) -> str:
    """`valid_0's l2` becomes `valid_0-l2`, joined as XGBoost joins its names."""
    return "-".join(part.strip().replace(" ", "_") for part in printed.split("'s ", 1))
