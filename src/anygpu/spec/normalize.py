"""Copy an untrusted value into plain JSON types, within limits on size and depth."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from anygpu.spec.documents import MAX_DEPTH, MAX_VALUES, FieldPath

MAX_CHARACTERS = 2 << 20
MAX_PROBLEMS = 50

Finding = tuple[FieldPath, Any, str]


@dataclass(slots=True)
class Normalizer:
    """Copies a value into plain JSON types, within limits on size and depth.

    Invalid parts become None, and a problem for each is added to `findings`.
    """

    findings: list[Finding] = field(default_factory=list)
    values: int = 0
    characters: int = 0
    full: bool = False

    def normalize(self, value: Any, path: FieldPath = ()) -> Any:
        self.values += 1
        if self._exceeds_limits(path):
            return None
        if isinstance(value, Mapping):
            return {
                key: self.normalize(item, (*path, key))
                for key, item in value.items()
                if self._is_key(key, path)
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.normalize(item, (*path, index)) for index, item in enumerate(value)]
        return self._leaf(value, path)

    def _exceeds_limits(self, path: FieldPath) -> bool:
        if self.full or len(self.findings) >= MAX_PROBLEMS:
            return True
        if len(path) > MAX_DEPTH:
            self._add_finding(
                path[:5],
                None,
                f"is nested more than {MAX_DEPTH} levels deep, which is the limit; use fewer levels",
            )
            return True
        if self.values > MAX_VALUES or self.characters > MAX_CHARACTERS:
            self.full = True
            self._add_finding(
                (),
                None,
                f"is too large: a job spec has at most {MAX_VALUES:,} values and {MAX_CHARACTERS >> 20} MiB of "
                "text; put data in a file of the working directory",
            )
        return self.full

    def _is_key(self, key: Any, path: FieldPath) -> bool:
        if isinstance(key, str):
            return self._text(key, (*path, key[:100])) is not None
        self._add_finding(path, preview(key), "is not a valid key; write the key as a string")
        return False

    def _leaf(self, value: Any, path: FieldPath) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int | float):
            return self._number(value, path)
        return self._python_value(value, path)

    def _text(self, value: str, path: FieldPath) -> Any:
        self.characters += len(value)
        if "\0" in value:
            return self._add_finding(path, preview(value), "contains a NUL character; remove it")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return self._add_finding(
                path, preview(value), "is not valid Unicode text; remove the unpaired surrogate characters"
            )
        return value

    def _number(self, value: int | float, path: FieldPath) -> Any:
        if isinstance(value, int):
            return (
                value
                if abs(value) < 1 << 63
                else self._add_finding(
                    path, None, "is a whole number that does not fit in 64 bits; write it as a string"
                )
            )
        return (
            value
            if math.isfinite(value)
            else self._add_finding(
                path, str(value), "is not a finite number; write a number that is neither infinite nor NaN"
            )
        )

    def _python_value(self, value: Any, path: FieldPath) -> Any:
        """Convert Python types without a JSON equivalent, such as paths and dates."""
        if isinstance(value, os.PathLike):
            return self._leaf(os.fspath(value), path)
        if isinstance(value, timedelta):
            return value.total_seconds()
        if isinstance(value, date | datetime):
            return value.isoformat()
        if isinstance(value, Decimal):
            return self._text(str(value), path)
        return self._add_finding(
            path,
            None,
            f"is a Python {type(value).__name__}, which a job spec cannot contain; use strings, numbers, "
            "lists and mappings",
        )

    def _add_finding(self, path: FieldPath, value: Any, message: str) -> Any:
        self.findings.append((path, value, message))
        return None


def preview(value: Any) -> Any:
    """Return a shortened form of a value, for messages and JSON."""
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
