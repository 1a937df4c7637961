"""Whether two trained models are the same, bit for bit: every array and number in them, whatever pickle made of it."""

import hashlib
from pathlib import Path
from typing import Any

import joblib
import numpy


def fingerprint(path: Path) -> str:
    digest = hashlib.sha256()
    _add(digest, joblib.load(path), {})
    return digest.hexdigest()


def _add(digest: Any, value: Any, seen: dict[int, Any]) -> None:
    if id(value) in seen:
        return
    if isinstance(value, numpy.ndarray) and value.dtype.names:
        for name in value.dtype.names:  # the bytes between the fields mean nothing
            digest.update(numpy.ascontiguousarray(value[name]).tobytes())
    elif isinstance(value, numpy.ndarray) and value.dtype != object:
        digest.update(numpy.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict | list | tuple | numpy.ndarray):
        for each in _learnt(value) if isinstance(value, dict) else value:
            _add(digest, each, seen)
    elif isinstance(value, str | bytes | int | float | bool | numpy.generic | None):
        digest.update(repr(value).encode())
    else:
        seen[id(value)] = value  # kept, so that nothing else gets its id
        _add(digest, _state(value), seen)


def _learnt(state: dict[Any, Any]) -> list[Any]:
    """Trees share a generator of chance, of which those from before a resume keep a copy that nobody uses."""
    return [(name, value) for name, value in state.items() if name != "random_state"]


def _state(value: Any) -> Any:
    if isinstance(value, type) or not hasattr(value, "__getstate__"):
        return str(value)
    state = value.__getstate__()
    return type(value).__name__ if state is None else state
