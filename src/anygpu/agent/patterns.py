"""Globs over the working directory.

They walk only where they lead: a data set beside the job costs nothing.
"""

from __future__ import annotations

import fnmatch
import os

from anygpu.agent.environment import STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def files_matching(root: str, patterns: Iterable[str]) -> dict[str, os.stat_result]:
    """Relative posix paths of regular files. A match that is a directory stands for all that is in it.

    Links that lead out of `root` are left out: nothing from elsewhere on the machine is published.
    """
    found: dict[str, os.stat_result] = {}
    real_root = os.path.realpath(root)
    for pattern in patterns:
        for path in _expand(root, "", _parts(pattern)):
            for file in _files_below(root, path):
                status = _status(real_root, os.path.join(root, file))
                if status is not None:
                    found[file] = status
    return found


def matches_a_folder(path: str, patterns: Iterable[str]) -> str | None:
    """The directory above `path` that one of the patterns names, as `out/checkpoint-*` names `out/checkpoint-400`."""
    parts = path.split("/")
    folders = ["/".join(parts[:size]) for size in range(len(parts) - 1, 0, -1)]
    for pattern in patterns:
        wanted = _parts(pattern)
        for folder in folders:
            if "**" not in wanted and _same(folder.split("/"), wanted):
                return folder
    return None


def _same(parts: list[str], wanted: list[str]) -> bool:
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def _parts(pattern: str) -> list[str]:
    """Only downwards: an absolute pattern or a way up matches nothing."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return [] if pattern.startswith("/") or ".." in parts else parts


def _expand(root: str, path: str, parts: list[str]) -> Iterator[str]:
    if not parts:
        if path:
            yield path
        return
    first, rest = parts[0], parts[1:]
    if first == "**" and not rest:
        yield from [path] if path else _names(root, path, "*")
    elif first == "**":
        yield from _expand(root, path, rest)
        for folder in _folders(root, path):
            yield from _expand(root, folder, parts)
    elif any(sign in first for sign in "*?["):
        for name in _names(root, path, first):
            yield from _expand(root, name, rest)
    elif os.path.lexists(os.path.join(root, path, first)):
        yield from _expand(root, _join(path, first), rest)


def _names(root: str, path: str, pattern: str) -> Iterator[str]:
    """Hidden names match only a pattern that begins with a dot, as in a shell."""
    for name in _listed(os.path.join(root, path)):
        visible = not name.startswith(".") or (pattern.startswith(".") and name != STATE)
        if visible and fnmatch.fnmatchcase(name, pattern):
            yield _join(path, name)


def _folders(root: str, path: str) -> Iterator[str]:
    for name in _names(root, path, "*"):
        full = os.path.join(root, name)
        if os.path.isdir(full) and not os.path.islink(full):
            yield name


def _files_below(root: str, path: str) -> Iterator[str]:
    full = os.path.join(root, path)
    if not os.path.isdir(full):
        yield path
    elif not os.path.islink(full):
        for name in _listed(full):
            if name != STATE:
                yield from _files_below(root, _join(path, name))


def _status(real_root: str, full: str) -> os.stat_result | None:
    try:
        real = os.path.realpath(full) if os.path.islink(full) else full
        status = os.stat(real)
    except OSError:
        return None
    inside = real is full or os.path.commonpath([real, real_root]) == real_root
    return status if inside and os.path.isfile(real) else None


def _listed(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
