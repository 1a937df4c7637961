"""Remove what a logger puts before the message: times, levels, and positions such as `trainer:261`."""

from __future__ import annotations

import re

from anygpu.agent.parsers.values import is_metric, is_noise, is_setting

_TIME = r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
_DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/]\d{1,2}(?:[-/]\d{2,4})?)"
_STAMP = r"(?:%s[ T]{1,2}%s(?:Z|[+-]\d\d:?\d\d)?|%s)" % (_DATE, _TIME, _TIME)
_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|NOTICE)"
_PLACE = r"[A-Za-z_<][\w.<>/-]{0,80}(?::[A-Za-z_<][\w.<>/-]{0,60}){0,3}:\d{1,6}"
_SEPARATOR = r"(?:\s{0,20}[|:>-]{0,2}(?=\s|$)\s{0,20}|:|(?=\[))"

# One part of a prefix and what separates it from the next part.
_PART = re.compile(
    r"\s{0,8}(?:"
    r"\[(?:%(stamp)s|%(date)s)(?:[ ,][^\]]{0,60})?\]:?"
    r"|[IWEFC]\d{4} %(time)s {1,4}\d{1,9} [\w./-]{1,80}:\d{1,6}\]"
    r"|%(stamp)s(?=[\s|\]-])"
    r"|%(level)s:[\w.]{1,80}(?=:)"
    r"|\[?%(level)s\]?(?=[\s|:-])"
    r"|[\[(]%(place)s[\])]"
    r"|%(place)s(?=\s{0,8}(?:[|:\]]|-\s))"
    r"|[A-Za-z_][\w.]{0,80}(?=\s{0,8}[|-]\s{1,8}\[?(?:%(level)s|%(place)s)\b)"
    r"|\[(?:rank|default)?\d{1,4}\](?=:)"
    r"|\[\d{1,4},\d{1,4}\]<std(?:out|err)>(?=:)"
    r")%(separator)s"
    % {
        "stamp": _STAMP,
        "date": _DATE,
        "time": _TIME,
        "level": _LEVEL,
        "place": _PLACE,
        "separator": _SEPARATOR,
    }
)
_BARE_PLACE = re.compile(r"\s{0,8}(%s)\s{1,8}" % _PLACE)
MAX_PARTS = 8


def without_log_prefix(text: str) -> str:
    """Return a line without the prefix of a logger; the line itself if it has none."""
    end = 0
    for _ in range(MAX_PARTS):
        part = _PART.match(text, end) or _match_bare_place(text, end)
        if part is None:
            break
        end = part.end()
    return text[end:] if end else text


def _match_bare_place(text: str, at: int) -> re.Match[str] | None:
    """Match a position such as `trainer:261` that only a space separates from the message.

    `loss:3` and `step:261` have the same form, but are values.
    """
    place = _BARE_PLACE.match(text, at)
    if place is None:
        return None
    name = place[1].rpartition(":")[0].lower()
    is_value = is_metric(name) or is_setting(name) or (is_noise(name) and not name.endswith(".py"))
    return None if is_value else place
