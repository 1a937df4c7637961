"""nanoGPT and its kin: `step 100: train loss 2.5, val loss 2.6`, `iter 10: loss 2.4, time 30ms, mfu 1%`."""

from __future__ import annotations

import re

from anygpu.agent.reading.values import NUMBER, NUMBER_ENDS, is_metric, is_setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anygpu.agent.reading.run import Run

_HEAD = re.compile(
    r"\s{0,8}(?:step|iter|iteration)\s{1,12}(\d{1,12})(?:\s?/\s{0,8}(\d{1,12}))?\s{0,4}[:,|]\s{0,4}",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"(?<![\w@./-])((?:(?:train|val|test|eval)\s)?[A-Za-z_][\w]{0,40})\s{1,4}(%s)%s" % (NUMBER, NUMBER_ENDS)
)


def read(text: str, run: Run) -> bool:
    head = _HEAD.match(text)
    if not head:
        return False
    found = [(match[1].replace(" ", "_"), float(match[2])) for match in _VALUE.finditer(text, head.end())]
    known = [(name, value) for name, value in found if is_metric(name) or is_setting(name)]
    if not known:
        return False
    done, of = int(head[1]), int(head[2]) if head[2] else None
    run.points(run.course.at_step(done, of, done / of if of else None), known)
    return True
