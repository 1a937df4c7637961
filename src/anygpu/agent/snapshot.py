"""Snapshots.

Training state set aside in one moment, so that what is written over it meanwhile tears nothing.
"""

from __future__ import annotations

import os

from anygpu.job import copy_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TRIES = 3


def take(root: str, names: Iterable[str], target: str, linkable: set[str]) -> str:
    """`names` below `root`, in `target`; newest first is the order in which they are listed again.

    A file that its writer replaces by rename is linked; any other is copied, and copied again when it changed.
    """
    for name in names:
        source, copy = os.path.join(root, name), os.path.join(target, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if name not in linkable or not _linked(source, copy):
            _copied(source, copy)
    return target


def _linked(source: str, copy: str) -> bool:
    try:
        os.link(os.path.realpath(source), copy)
    except OSError:
        return False
    return True


def _copied(source: str, copy: str) -> None:
    for _ in range(TRIES):
        before = signature(os.stat(source))
        copy_file(source, copy)
        after = os.stat(source)
        if before == signature(after):
            os.utime(copy, ns=(after.st_mtime_ns, after.st_mtime_ns))
            return
    raise OSError(f"{source} is being written to; it is tried again later")


def signature(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def files_of(snapshot: str) -> list[tuple[str, str]]:
    """(relative posix path, path) of each file, the newest first."""
    found = sorted(_below(snapshot, ""), key=lambda pair: -os.stat(pair[1]).st_mtime_ns)
    return found


def _below(root: str, relative: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(os.listdir(os.path.join(root, relative))):
        name = f"{relative}/{entry}" if relative else entry
        path = os.path.join(root, name)
        if os.path.isdir(path):
            yield from _below(root, name)
        else:
            yield name, path


def discard(snapshot: str | None) -> None:
    if snapshot is not None:
        import shutil

        shutil.rmtree(snapshot, ignore_errors=True)
