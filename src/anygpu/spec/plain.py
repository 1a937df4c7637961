"""An untrusted value of any shape -> a plain copy of texts, numbers, lists and mappings, within bounds."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from anygpu.spec.read import MAX_DEPTH, MAX_VALUES, Place

MAX_CHARACTERS = 2 << 20
MAX_PROBLEMS = 50

Finding = tuple[Place, Any, str]


@dataclass(slots=True)
class PlainCopy:
    """Copies while it counts; what cannot be in a spec becomes a finding and a None."""

    findings: list[Finding] = field(default_factory=list)
    values: int = 0
    characters: int = 0
    full: bool = False

    def of(self, value: Any, place: Place = ()) -> Any:
        self.values += 1
        if self._too_much(place):
            return None
        if isinstance(value, Mapping):
            return {
                key: self.of(item, (*place, key)) for key, item in value.items() if self._is_key(key, place)
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.of(item, (*place, index)) for index, item in enumerate(value)]
        return self._leaf(value, place)

    def _too_much(self, place: Place) -> bool:
        if self.full or len(self.findings) >= MAX_PROBLEMS:
            return True
        if len(place) > MAX_DEPTH:
            self._refuse(place[:5], None, f"is nested more than {MAX_DEPTH} levels deep")
            return True
        if self.values > MAX_VALUES or self.characters > MAX_CHARACTERS:
            self.full = True
            self._refuse(
                (), None, f"is larger than {MAX_VALUES:,} values or {MAX_CHARACTERS >> 20} MiB of text"
            )
        return self.full

    def _is_key(self, key: Any, place: Place) -> bool:
        if isinstance(key, str):
            return self._text(key, (*place, key[:100])) is not None
        self._refuse(place, shown(key), "is not a key; keys are texts")
        return False

    def _leaf(self, value: Any, place: Place) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, place)
        if isinstance(value, int | float):
            return self._number(value, place)
        return self._other(value, place)

    def _text(self, value: str, place: Place) -> Any:
        self.characters += len(value)
        if "\0" in value:
            return self._refuse(place, shown(value), "holds a NUL character")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return self._refuse(place, shown(value), "is not valid Unicode text")
        return value

    def _number(self, value: int | float, place: Place) -> Any:
        if isinstance(value, int):
            return value if abs(value) < 1 << 63 else self._refuse(place, None, "is a number beyond 64 bits")
        return value if math.isfinite(value) else self._refuse(place, str(value), "is not a finite number")

    def _other(self, value: Any, place: Place) -> Any:
        """What Python callers may give besides JSON's own types."""
        if isinstance(value, os.PathLike):
            return self._leaf(os.fspath(value), place)
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, date | datetime):
            return value.isoformat()
        if isinstance(value, Decimal):
            return self._text(str(value), place)
        return self._refuse(
            place, None, f"is a {type(value).__name__}; use texts, numbers, lists and mappings"
        )

    def _refuse(self, place: Place, value: Any, message: str) -> Any:
        self.findings.append((place, value, message))
        return None


def shown(value: Any) -> Any:
    """A value short and simple enough to print and to put in JSON."""
    if isinstance(value, str):
        text = value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
        return text if len(text) <= 100 else f"{text[:97]}..."
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"a {type(value).__name__}"
