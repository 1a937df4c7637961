"""Short forms and aliases of spec fields, and the long form of each.

The CLI expands short forms before it merges flags over a file, so this module imports no models.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

STRATEGIES = ("queue", "cheapest", "fastest", "preferred", "balanced")
DATASET_SCHEMES = ("http", "https", "s3", "gs", "az", "hf")

MAX_WORDS_TEXT = 65_536

# Alias -> field name with its unit. A field may have several aliases; a spec may use only one of them.
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
    """Expand `2`, `"A100"`, `"A100:8"` or `"24GB:2"` to a mapping.

    Other values are returned unchanged; the model validates them.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return {"count": value}
    if not isinstance(value, str):
        return value
    expanded: dict[str, Any] = {}
    for part in value.split(":"):
        key, part_value = _gpu_part(part.strip())
        if key in expanded:
            return value
        expanded[key] = part_value
    return expanded


def _gpu_part(text: str) -> tuple[str, Any]:
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return "count", int(text)
    return ("memory", text) if _SIZE.fullmatch(text) else ("kind", text)


def dataset(value: Any) -> Any:
    """Expand a text to a mapping: a URL, a stored dataset (`name@version`), or else a path."""
    if not isinstance(value, str):
        return value
    if "://" in value:
        return {"url": value}
    named = _NAME_AT_VERSION.fullmatch(value)
    return {"name": named[1], "version": named[2]} if named else {"path": value}


def workdir(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


def notify(value: Any) -> Any:
    """Expand one or several addresses to a list of mappings. Each address is a text or a mapping."""
    entries = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(entries, list | tuple):
        return value
    return [{"to": entry} if isinstance(entry, str) else entry for entry in entries]


def secrets(value: Any) -> Any:
    """Expand a list of names to a mapping.

    Each secret is set in the environment variable of the same name.
    """
    if isinstance(value, str):
        return {value: value}
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    return value


def as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def words(value: Any) -> Any:
    """Split a string into a list of arguments as a shell does."""
    if not isinstance(value, str):
        return value
    if len(value) > MAX_WORDS_TEXT:
        raise ValueError(
            f"is longer than {MAX_WORDS_TEXT} characters; write the words as a list instead of one string"
        )
    try:
        return shlex.split(value)
    except ValueError:
        raise ValueError(
            "has a quotation mark that is never closed; close it, or write the words as a list"
        ) from None


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
    """Expand a short form to a mapping, so that a flag can change one part of it.

    Other values are returned unchanged.
    """
    return LONG_FORMS[place](value) if place in LONG_FORMS else value


def other_names(place: str, key: str) -> frozenset[str]:
    """Return the other names of the same field.

    A flag that sets the field under one name also replaces values given under these names.
    """
    friendly = ALIASES.get(place, {})
    field = friendly.get(key, key)
    names = {field, *(name for name, target in friendly.items() if target == field)}
    if place == "limits" and field in ("deadline_at", "deadline_s"):
        names = {"deadline", "deadline_at", "deadline_s"}
    return frozenset(names - {key})
