"""Text -> a plain mapping that remembers the line of each key. No models, so the command line starts fast."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anygpu.errors import InvalidSpec, Problem

Place = tuple[str | int, ...]

MAX_TEXT_BYTES = 2 << 20
MAX_DEPTH = 40
MAX_VALUES = 20_000
SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}

_INT = re.compile(r"[-+]?[0-9]{1,40}")
_OCTAL = re.compile(r"0o[0-7]{1,40}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
}


@dataclass(frozen=True, slots=True)
class Document:
    """A spec as written: its data, where it came from, and the line each key stands on."""

    data: dict[str, Any]
    source: str = "spec"
    lines: Mapping[Place, int] = field(default_factory=dict)


def read_file(path: Path) -> Document:
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise invalid(str(path), f"is not a job file; use {', '.join(SUFFIXES)}")
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise invalid(str(path), "is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise invalid(str(path), f"cannot be read: {reason}") from None
    return {"yaml": read_yaml, "json": read_json, "toml": read_toml}[kind](text, str(path))


def read_yaml(text: str, source: str = "spec") -> Document:
    from anygpu.spec.yamltree import parse

    check_length(text, source)
    return parse(text, source)


def read_toml(text: str, source: str = "spec") -> Document:
    from anygpu.spec.tomltree import parse

    check_length(text, source)
    return parse(text, source)


def read_json(text: str, source: str = "spec") -> Document:
    check_length(text, source)
    try:
        data = json.loads(text, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError) as error:
        raise invalid(source, f"is not JSON: {error}", line=getattr(error, "lineno", None)) from None
    if not isinstance(data, dict):
        raise invalid(source, "is not a JSON object")
    return Document(data, source)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is given twice")
        found[key] = value
    return found


def check_length(text: str, source: str) -> None:
    if len(text) > MAX_TEXT_BYTES:
        raise invalid(
            source, f"is longer than {MAX_TEXT_BYTES >> 20} MiB; put code and data in the working directory"
        )


def scalar(text: str) -> Any:
    """A plain word as YAML 1.2 reads it: `no` and `on` stay words, unlike in YAML 1.1."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, 0)
    return float(text) if len(text) <= 400 and _FLOAT.fullmatch(text) else text


def invalid(
    source: str, message: str, *, place: str = "", line: int | None = None, value: Any = None
) -> InvalidSpec:
    return InvalidSpec([Problem(place=place, value=value, message=message, source=source, line=line)])


def dotted(place: Place) -> str:
    """`("notify", 0, "to")` -> `notify[0].to`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")
