"""Find files by glob pattern and take snapshots of them, so that later writes cannot damage an upload."""

from __future__ import annotations

import fnmatch
import os
import stat

from anygpu.agent.attempt_dir import STATE_DIR
from anygpu.job import copy_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def find_files(root: str, patterns: Iterable[str]) -> dict[str, os.stat_result]:
    """Return the files below `root` that match a pattern, by relative path.

    A matching directory means all files in it. Only directories that a pattern can match are read, so a large
    dataset beside the job costs nothing. Links to files outside `root` are ignored, so no other file of the
    machine is uploaded.
    """
    files: dict[str, os.stat_result] = {}
    real_root = os.path.realpath(root)
    for pattern in patterns:
        for path in _expand(root, "", _split_pattern(pattern)):
            for file in _files_below(root, path):
                status = _status(real_root, os.path.join(root, file))
                if status is not None:
                    files[file] = status
    return files


def matching_folder(path: str, patterns: Iterable[str]) -> str | None:
    """Return the parent directory of `path` that matches a pattern; None if there is none.

    For example `out/checkpoint-400` for the pattern `out/checkpoint-*`.
    """
    parts = path.split("/")
    folders = ["/".join(parts[:size]) for size in range(len(parts) - 1, 0, -1)]
    for pattern in patterns:
        pattern_parts = _split_pattern(pattern)
        for folder in folders:
            if "**" not in pattern_parts and _matches(folder.split("/"), pattern_parts):
                return folder
    return None


def _matches(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))


def _split_pattern(pattern: str) -> list[str]:
    """Split a glob pattern at `/`.

    Return an empty list for an absolute pattern or a pattern with `..`, so that these match no file.
    """
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return [] if pattern.startswith("/") or ".." in parts else parts


def _expand(root: str, path: str, parts: list[str]) -> Iterator[str]:
    if not parts:
        if path:
            yield path
        return
    first, rest = parts[0], parts[1:]
    if first == "**" and not rest:
        yield from [path] if path else _matching_names(root, path, "*")
    elif first == "**":
        yield from _expand(root, path, rest)
        for folder in _subfolders(root, path):
            yield from _expand(root, folder, parts)
    elif any(sign in first for sign in "*?["):
        for name in _matching_names(root, path, first):
            yield from _expand(root, name, rest)
    elif os.path.lexists(os.path.join(root, path, first)):
        yield from _expand(root, _join(path, first), rest)


def _matching_names(root: str, path: str, pattern: str) -> Iterator[str]:
    """Yield the paths in directory `path` whose names match `pattern`. `*` matches no hidden names."""
    for name in _list_directory(os.path.join(root, path)):
        visible = not name.startswith(".") or (pattern.startswith(".") and name != STATE_DIR)
        if visible and fnmatch.fnmatchcase(name, pattern):
            yield _join(path, name)


def _subfolders(root: str, path: str) -> Iterator[str]:
    for name in _matching_names(root, path, "*"):
        full = os.path.join(root, name)
        if os.path.isdir(full) and not os.path.islink(full):
            yield name


def _files_below(root: str, path: str) -> Iterator[str]:
    full = os.path.join(root, path)
    if not os.path.isdir(full):
        yield path
    elif not os.path.islink(full):
        for name in _list_directory(full):
            if name != STATE_DIR:
                yield from _files_below(root, _join(path, name))


def _status(real_root: str, full: str) -> os.stat_result | None:
    try:
        real = os.path.realpath(full) if os.path.islink(full) else full
        status = os.stat(real)
    except OSError:
        return None
    inside = real is full or os.path.commonpath([real, real_root]) == real_root
    return status if inside and os.path.isfile(real) else None


def _list_directory(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


COPY_TRIES = 3


def take_snapshot(root: str, names: Iterable[str], target: str, linkable: set[str]) -> str:
    """Copy the files `names` from `root` to `target`, and return `target`.

    Files in `linkable` are hard-linked: their writer replaces them by rename and never changes them in place.
    Any other file is copied, and copied again if it changed during the copy.
    """
    for name in names:
        source, copy = os.path.join(root, name), os.path.join(target, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if name not in linkable or not _try_link(source, copy):
            _copy_unchanged(source, copy)
    return target


def _try_link(source: str, copy: str) -> bool:
    try:
        os.link(os.path.realpath(source), copy)
    except OSError:
        return False
    return True


def _copy_unchanged(source: str, copy: str) -> None:
    for _ in range(COPY_TRIES):
        before = file_signature(os.stat(source))
        copy_file(source, copy)
        after = os.stat(source)
        if before == file_signature(after):
            os.utime(copy, ns=(after.st_mtime_ns, after.st_mtime_ns))
            return
    raise OSError(
        f"the script changed {source} while the agent was copying it. The agent copies and uploads it "
        "again later"
    )


def file_signature(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def snapshot_files(snapshot: str) -> list[tuple[str, str]]:
    """Return (relative path, full path) of each regular file of a snapshot, newest first.

    Links are not followed, because a job in a container could use them to read files of the machine.
    """
    return sorted(_walk(snapshot, ""), key=lambda pair: -os.stat(pair[1]).st_mtime_ns)


def _walk(root: str, relative: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(os.listdir(os.path.join(root, relative))):
        name = f"{relative}/{entry}" if relative else entry
        path = os.path.join(root, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            yield from _walk(root, name)
        elif stat.S_ISREG(mode):
            yield name, path


def discard_snapshot(snapshot: str | None) -> None:
    if snapshot is not None:
        import shutil

        shutil.rmtree(snapshot, ignore_errors=True)
