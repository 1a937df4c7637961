"""Remove a directory tree that a hostile job has written, in steps of limited time.

It may have very many files, directories without permissions, and directories that are nested so deep that a recursive
function fails. Links are removed, not followed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import time
import uuid

ENTRIES = 1000  # of one listing
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(parent: int, name: str, limit_s: float) -> bool:
    """Remove `name` from a directory (descriptor), and everything in it. Return False if more time is needed."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return True
        top = _open_directory(parent, name)
    except FileNotFoundError:
        return True
    time_left = _TimeLimit(limit_s)
    try:
        while entries := _list(top):
            for entry, is_directory in entries:
                _remove_entry(top, entry, is_directory, time_left)
                if time_left.is_over():
                    return False
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)
    return True


class _TimeLimit:
    """The time for removing entries. It begins at the first question, so that a slow listing does not use it up."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._end: float | None = None

    def is_over(self) -> bool:
        now = time.monotonic()
        if self._end is None:
            self._end = now + self._limit_s
        return now >= self._end


def _list(directory: int) -> list[tuple[str, bool]]:
    """Return some entries of a directory: their names, and which are directories."""
    with os.scandir(directory) as entries:
        some = itertools.islice(entries, ENTRIES)
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in some]


def _remove_entry(top: int, name: str, is_directory: bool, time_left: _TimeLimit) -> None:
    """Remove an entry of `top`. Directories in it are moved to `top`, so none is deeper than that."""
    if not is_directory:
        os.unlink(name, dir_fd=top)
        return
    directory = _open_directory(top, name)
    try:
        while entries := _list(directory):
            for entry, is_nested in entries:
                if is_nested:
                    _allow(directory, entry)  # a directory without the right to write in it cannot be moved
                    os.rename(entry, f".{uuid.uuid4().hex}", src_dir_fd=directory, dst_dir_fd=top)
                else:
                    os.unlink(entry, dir_fd=directory)
                if time_left.is_over():
                    return
    finally:
        os.close(directory)
    _remove_empty(top, name)


def _remove_empty(top: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=top)
    except OSError as error:
        if error.errno not in (
            errno.ENOTEMPTY,
            errno.EEXIST,
        ):  # a job that still runs may have written something
            raise


def _open_directory(parent: int, name: str) -> int:
    _allow(parent, name)
    return os.open(name, _OPEN, dir_fd=parent)


def _allow(parent: int, name: str) -> None:
    """Give ourselves all rights in a directory. Without this right, the next operation says what is wrong."""
    if not hasattr(os, "O_PATH"):
        return
    with contextlib.suppress(OSError):
        # This opens a directory without any rights too, and chmod cannot be led to another file by a link.
        directory = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{directory}", 0o700)
        finally:
            os.close(directory)
