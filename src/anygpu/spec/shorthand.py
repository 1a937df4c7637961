"""The short and friendly forms of a spec, and the one long form each stands for.

No models here: the command line merges flags over a file with these before anything is validated.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

STRATEGIES = ("queue", "cheapest", "fastest", "preferred", "balanced")
DATASET_SCHEMES = ("http", "https", "s3", "gs", "az", "hf")

MAX_WORDS_TEXT = 65_536

# Friendly name -> the name with its unit. A place may have several friendly names, never two at once.
ALIASES: Mapping[str, Mapping[str, str]] = {
    "resources": {"memory": "memory_gib", "disk": "disk_gib"},
    "resources.gpu": {"memory": "memory_gib"},
    "limits": {"timeout": "timeout_s", "max_cost": "max_cost_microusd", "deadline": "deadline_at"},
    "checkpoint": {"every": "every_s", "interval": "every_s"},
    "placement": {"hold_on_failure": "hold_on_failure_s", "expected_duration": "expected_duration_s"},
}

_SIZE = re.compile(r"[0-9.]+\s*[kmgtp]i?b?", re.IGNORECASE)
_NAME_AT_VERSION = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*)@([A-Za-z0-9][A-Za-z0-9._-]*)")


def gpu(value: Any) -> Any:
    """`2`, `"A100"`, `"A100:8"`, `"24GB:2"` -> a mapping; anything else is left for the model to refuse."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"count": value}
    if not isinstance(value, str):
        return value
    found: dict[str, Any] = {}
    for part in value.split(":"):
        key, value_given = _gpu_part(part.strip())
        if key in found:
            return value
        found[key] = value_given
    return found


def _gpu_part(text: str) -> tuple[str, Any]:
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return "count", int(text)
    return ("memory", text) if _SIZE.fullmatch(text) else ("kind", text)


def dataset(value: Any) -> Any:
    """A URL, `name@version`, or else a path."""
    if not isinstance(value, str):
        return value
    if "://" in value:
        return {"url": value}
    named = _NAME_AT_VERSION.fullmatch(value)
    return {"name": named[1], "version": named[2]} if named else {"path": value}


def workdir(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


def notify(value: Any) -> Any:
    """One address or several, each a text or a mapping."""
    entries = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(entries, list | tuple):
        return value
    return [{"to": entry} if isinstance(entry, str) else entry for entry in entries]


def secrets(value: Any) -> Any:
    """A list of names: each secret arrives in the environment under its own name."""
    if isinstance(value, str):
        return {value: value}
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    return value


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def words(value: Any) -> Any:
    """Arguments given as one text are split as a shell would."""
    if not isinstance(value, str):
        return value
    if len(value) > MAX_WORDS_TEXT:
        raise ValueError(f"is longer than {MAX_WORDS_TEXT} characters; give a list of words")
    try:
        return shlex.split(value)
    except ValueError:
        raise ValueError("has an unclosed quotation mark") from None


def interruptible(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return {"true": "yes", "false": "no"}.get(value, value) if isinstance(value, str) else value


LONG_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "resources.gpu": gpu,
    "dataset": dataset,
    "workdir": workdir,
    "secrets": secrets,
}


def long_form(place: str, value: Any) -> Any:
    """The mapping a short form stands for, so that a flag can change one part of it."""
    return LONG_FORMS[place](value) if place in LONG_FORMS else value


def other_names(place: str, key: str) -> frozenset[str]:
    """The other names of the same field: whoever sets one by a flag replaces them all."""
    friendly = ALIASES.get(place, {})
    field = friendly.get(key, key)
    names = {field, *(name for name, target in friendly.items() if target == field)}
    if place == "limits" and field in ("deadline_at", "deadline_s"):
        names = {"deadline", "deadline_at", "deadline_s"}
    return frozenset(names - {key})
