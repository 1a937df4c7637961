"""Find the files that the script created or changed in its copy of the working directory: its results."""

from __future__ import annotations

import os
import re
import stat
import time

from anygpu.agent.attempt_dir import STATE_DIR
from anygpu.agent.files import file_sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# A file written within this time of another write may have the same modification time.
AMBIGUOUS_NS = 100_000_000
VENV_FILE = "pyvenv.cfg"


class ResultRule:
    """Rules for the results of a job: the files to ignore, and the largest number of files and bytes to keep."""

    __slots__ = ("ignore", "max_bytes", "max_files")

    def __init__(self, payload: dict[str, Any]) -> None:
        self.ignore: list[str] = payload.get("ignore") or []
        self.max_bytes = int(payload.get("max_bytes") or 0)
        self.max_files = int(payload.get("max_files") or 0)


class ResultFiles:
    """The names of the result files to upload, and the names and sizes of those that exceed a limit."""

    __slots__ = ("kept", "left_out")

    def __init__(self, kept: list[str], left_out: list[tuple[str, int]]) -> None:
        self.kept, self.left_out = kept, left_out


class ResultFinder:
    """Compares the working directory with its state at the start of the script.

    A file is compared by size, modification time and inode. The content is compared too for files that were
    written just before the start, because a change right afterwards may leave the modification time equal.
    """

    def __init__(self, cwd: str, rule: ResultRule) -> None:
        """Record the state of the directory `cwd`."""
        self._cwd, self._rule = cwd, rule
        self._ignore = IgnorePatterns(rule.ignore)
        statuses = dict(self._walk())
        recent_ns = time.time_ns() - AMBIGUOUS_NS
        self._before = {name: _signature(status) for name, status in statuses.items()}
        self._hashes = {
            name: self._content_hash(name)
            for name, status in statuses.items()
            if status.st_mtime_ns >= recent_ns
        }

    def find(self) -> ResultFiles:
        """Return the new and changed files. The newest files are kept first, until a limit is reached."""
        changed = [(name, status) for name, status in self._walk() if self._has_changed(name, status)]
        kept: list[str] = []
        left_out: list[tuple[str, int]] = []
        left_bytes = self._rule.max_bytes
        for name, status in sorted(changed, key=lambda item: -item[1].st_mtime_ns):
            if len(kept) < self._rule.max_files and status.st_size <= left_bytes:
                kept.append(name)
                left_bytes -= status.st_size
            else:
                left_out.append((name, status.st_size))
        return ResultFiles(sorted(kept), sorted(left_out, key=lambda item: -item[1]))

    def _has_changed(self, name: str, status: os.stat_result) -> bool:
        if self._before.get(name) != _signature(status):
            return True
        return name in self._hashes and self._hashes[name] != self._content_hash(name)

    def _content_hash(self, name: str) -> str:
        """Return the SHA-256 of a file; an empty string if it cannot be read."""
        try:
            return file_sha256(os.path.join(self._cwd, name))
        except OSError:
            return ""

    def _walk(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the name and status of each regular file that is not ignored."""
        root = os.path.realpath(self._cwd)
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            entries = _scan(os.path.join(self._cwd, folder))
            if folder and any(entry.name == VENV_FILE for entry in entries):
                continue
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if name == STATE_DIR or self._ignore.match(name, is_folder):
                    continue
                if is_folder:
                    waiting.append(name)
                else:
                    status = _file_status(entry, root)
                    if status is not None:
                        yield name, status


def _signature(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _scan(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _file_status(entry: os.DirEntry[str], root: str) -> os.stat_result | None:
    """Return the status of a regular file, also through a link to a file below `root`; else None."""
    try:
        if entry.is_symlink() and os.path.commonpath([os.path.realpath(entry.path), root]) != root:
            return None
        status = entry.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


class IgnorePatterns:
    """Patterns in the syntax of .gitignore. The last pattern that matches decides."""

    def __init__(self, patterns: Iterable[str]) -> None:
        lines = (line.rstrip() for line in patterns)
        self._rules = [_compile(line) for line in lines if line.strip("/! ") and not line.startswith("#")]

    def match(self, name: str, is_folder: bool) -> bool:
        ignored = False
        for is_negated, folders_only, regex in self._rules:
            if (is_folder or not folders_only) and regex.fullmatch(name):
                ignored = not is_negated
        return ignored


def _compile(pattern: str) -> tuple[bool, bool, re.Pattern[str]]:
    is_negated = pattern.startswith("!")
    body = pattern[1:] if is_negated else pattern
    folders_only = body.endswith("/")
    body = body.rstrip("/")
    anchored = "/" in body
    parts = re.split(r"(\*\*/|/\*\*|\*|\?|\[[^\]]+\])", body.lstrip("/"))
    text = "".join(_GLOBS.get(part) or _literal(part) for part in parts)
    return is_negated, folders_only, re.compile(text if anchored else f"(?:.*/)?{text}")


_GLOBS = {"**/": "(?:.*/)?", "/**": "/.*", "*": "[^/]*", "?": "[^/]"}


def _literal(part: str) -> str:
    if part.startswith("[") and part.endswith("]"):
        return part.replace("[!", "[^", 1).replace("\\", "\\\\")
    return re.escape(part)
