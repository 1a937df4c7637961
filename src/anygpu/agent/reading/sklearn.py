"""scikit-learn's verbose output, where it differs from what people write themselves."""

from __future__ import annotations

import re

from anygpu.agent.reading.values import NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.reading.run import Run

_INERTIA = re.compile(r"Iteration (\d{1,12}), inertia (%s)\.?$" % NUMBER)
_SGD = re.compile(
    r"Norm: (%s), NNZs: \d{1,12}, Bias: %s, T: \d{1,15}, Avg\. loss: (%s)" % (NUMBER, NUMBER, NUMBER)
)
_OBJECTIVE = re.compile(r", Objective: (%s)$" % NUMBER)


def read(text: str, run: Run) -> bool:
    return _read_kmeans(text, run) if "inertia" in text else _read_sgd(text, run)


def _read_kmeans(text: str, run: Run) -> bool:
    line = _INERTIA.match(text)
    if line:
        run.points(run.course.at_step(int(line[1])), [("inertia", float(line[2]))])
    return bool(line)


def _read_sgd(text: str, run: Run) -> bool:
    """`-- Epoch 3` stands before; this line closes that epoch."""
    line = _SGD.match(text)
    if not line or run.course.running is None:
        return False
    ordinal = run.course.running
    run.course.epoch_ends(ordinal)
    objective = _OBJECTIVE.search(text)
    found = [("norm", float(line[1])), ("avg_loss", float(line[2]))]
    run.points(ordinal, found + ([("objective", float(objective[1]))] if objective else []))
    return True
