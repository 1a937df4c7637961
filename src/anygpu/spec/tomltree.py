"""TOML -> a plain mapping; lines are found by reading the headers and keys again, as tomllib keeps none."""

import re
import tomllib
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

from anygpu.spec.read import Document, Place, invalid

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_ERROR_LINE = re.compile(r"\(at line (\d+)")


def parse(text: str, source: str) -> Document:
    try:
        data = _plain(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        at = _ERROR_LINE.search(str(error))
        raise invalid(source, f"is not TOML: {error}", line=int(at[1]) if at else None) from None
    except RecursionError:
        raise invalid(source, "is nested too deeply") from None
    return Document(data, source, dict(_lines(text, data)))


def _plain(value: Any) -> Any:
    """Instants stay texts: the field they stand in knows what to make of them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime | date | time) else value


def _lines(text: str, data: dict[str, Any]) -> Iterator[tuple[Place, int]]:
    """Only places that are really in the data: a line inside a multi-line text may look like a key."""
    table: Place = ()
    counts: dict[Place, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _table(header[1], _parts(header[2]), counts)
            found = table
        elif key := _KEY.match(line):
            found = table + _parts(key[1])
        else:
            continue
        if _is_in(data, found):
            yield found, number


def _table(bracket: str, parts: Place, counts: dict[Place, int]) -> Place:
    if bracket == "[":
        return parts
    index = counts.get(parts, 0)
    counts[parts] = index + 1
    return (*parts, index)


def _parts(text: str) -> Place:
    return tuple(part.strip("\"'") for part in re.findall(_PART, text))


def _is_in(data: Any, place: Place) -> bool:
    for part in place:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
