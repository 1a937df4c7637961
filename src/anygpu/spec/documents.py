"""Read YAML, TOML or JSON text into a mapping with line numbers. Imports no models, so that the CLI starts fast."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from anygpu.errors import InvalidSpec, Problem

FieldPath = tuple[str | int, ...]

MAX_TEXT_BYTES = 2 << 20
MAX_DEPTH = 40
MAX_VALUES = 20_000
SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}

_INT = re.compile(r"[-+]?[0-9]{1,40}")
_OCTAL = re.compile(r"0o[0-7]{1,40}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
}


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a spec file: its data, where it comes from, and the line number of each key."""

    data: dict[str, Any]
    source: str = "spec"
    lines: Mapping[FieldPath, int] = field(default_factory=dict)


def read_file(path: Path) -> Document:
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise invalid_document(
            str(path), f"is not a job file; its name must end with one of {', '.join(SUFFIXES)}"
        )
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise invalid_document(str(path), "is not UTF-8 text; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise invalid_document(
            str(path), f"cannot be read: {reason}; check the path and the permissions of the file"
        ) from None
    return {"yaml": read_yaml, "json": read_json, "toml": read_toml}[kind](text, str(path))


def read_yaml(text: str, source: str = "spec") -> Document:
    from anygpu.spec.yaml_parser import parse_yaml

    require_short(text, source)
    return parse_yaml(text, source)


def read_toml(text: str, source: str = "spec") -> Document:
    require_short(text, source)
    return _parse_toml(text, source)


def read_json(text: str, source: str = "spec") -> Document:
    require_short(text, source)
    try:
        data = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise invalid_document(
            source, f"is not valid JSON: {error}", line=getattr(error, "lineno", None)
        ) from None
    if not isinstance(data, dict):
        raise invalid_document(source, 'is not a JSON object; write an object such as {"script": "train.py"}')
    return Document(data, source)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise ValueError(f"the key {key!r} is there twice; remove one of the two")
        unique[key] = value
    return unique


def require_short(text: str, source: str) -> None:
    if len(text) > MAX_TEXT_BYTES:
        raise invalid_document(
            source, f"is longer than {MAX_TEXT_BYTES >> 20} MiB; put code and data in the working directory"
        )


def parse_scalar(text: str) -> Any:
    """Parse a scalar by the rules of YAML 1.2, in which `no` and `on` are strings and not booleans."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, 0)
    return float(text) if len(text) <= 400 and _FLOAT.fullmatch(text) else text


def invalid_document(
    source: str, message: str, *, place: str = "", line: int | None = None, value: Any = None
) -> InvalidSpec:
    return InvalidSpec([Problem(place=place, value=value, message=message, source=source, line=line)])


def format_path(place: FieldPath) -> str:
    """Format the path of a field for messages: `("notify", 0, "to")` becomes `notify[0].to`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_ERROR_LINE = re.compile(r"\(at line (\d+)")


def _parse_toml(text: str, source: str) -> Document:
    import tomllib

    try:
        data = _dates_to_text(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        at = _ERROR_LINE.search(str(error))
        raise invalid_document(
            source, f"is not valid TOML: {error}", line=int(at[1]) if at else None
        ) from None
    except RecursionError:
        raise invalid_document(
            source, "has tables or lists that are nested too deeply; use fewer levels"
        ) from None
    return Document(data, source, dict(_toml_lines(text, data)))


def _dates_to_text(value: Any) -> Any:
    """Convert dates and times in a value to text. The field that receives the text parses it again."""
    if isinstance(value, dict):
        return {key: _dates_to_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_dates_to_text(item) for item in value]
    return value.isoformat() if isinstance(value, datetime | date | time) else value


def _toml_lines(text: str, data: dict[str, Any]) -> Iterator[tuple[FieldPath, int]]:
    """Yield the path and line number of each key.

    A second scan of the text finds the line numbers, because tomllib does not keep them. Only paths that
    exist in the data count: a line inside a multi-line text may look like a key.
    """
    table: FieldPath = ()
    counts: dict[FieldPath, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _table_path(header[1], _split_key(header[2]), counts)
            path = table
        elif key := _KEY.match(line):
            path = table + _split_key(key[1])
        else:
            continue
        if _exists(data, path):
            yield path, number


def _table_path(bracket: str, parts: FieldPath, counts: dict[FieldPath, int]) -> FieldPath:
    if bracket == "[":
        return parts
    index = counts.get(parts, 0)
    counts[parts] = index + 1
    return (*parts, index)


def _split_key(text: str) -> FieldPath:
    return tuple(part.strip("\"'") for part in re.findall(_PART, text))


def _exists(data: Any, path: FieldPath) -> bool:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
