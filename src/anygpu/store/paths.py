"""Paths inside a checkpoint or a result: they come from elsewhere and must stay inside their directory."""

import unicodedata
from collections.abc import Iterable

from anygpu.errors import UnsafePath

MAX_PATH_BYTES = 1024


def checked_path(value: object, place: str = "path") -> str:
    """A relative path of plain parts, or UnsafePath."""
    fault = _fault(value)
    if fault:
        shown = repr(value)[:200]
        raise UnsafePath(
            f"{place} {shown}: {fault}.", hint="Use relative paths that stay inside the directory."
        )
    return str(value)


def _fault(value: object) -> str:
    if not isinstance(value, str) or not value:
        return "a file name is needed"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        return "it has control characters, or is not valid Unicode"
    if len(value.encode()) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES} bytes"
    if "\\" in value:
        return "it has a backslash"
    if any(part in ("", ".", "..") for part in value.split("/")):
        return "it is absolute, or has an empty part, `.` or `..`"
    return ""


def checked_tree(paths: Iterable[str]) -> None:
    """No path twice, and none that would need a file to be a directory."""
    seen: set[str] = set()
    for path in sorted(paths, key=lambda path: path.split("/")):
        if path in seen:
            raise UnsafePath(f"{path!r} is there twice.", hint="Name each file once.")
        above = next((parent for parent in _parents(path) if parent in seen), None)
        if above is not None:
            raise UnsafePath(f"{path!r} lies inside {above!r}, which is a file.", hint="Name each file once.")
        seen.add(path)


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))
