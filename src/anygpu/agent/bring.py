"""What a job needs is brought to its machine: the working directory and the data, each fetched once and verified."""

from __future__ import annotations

import errno
import os

from anygpu.agent.fetch import Corrupt, download
from anygpu.agent.http11 import Unreachable
from anygpu.agent.process import CannotStart
from anygpu.agent.wire import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.attempt import Attempt

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Interrupted(Exception):
    """Something asked us to stop while we were preparing."""


def go_on(attempt: Attempt) -> None:
    """Asked now and then by what takes long: raises when we are to stop."""
    if attempt.loop.check() is not None:
        raise Interrupted
    attempt.report.flush_when_due()


def working_directory(attempt: Attempt) -> None:
    archive = attempt.work.archive
    if archive:
        with_file(attempt, archive, "work.tar.gz", "the working directory", _unpacked(attempt))


def dataset(attempt: Attempt) -> str | None:
    """Where the job finds its data. A path means the machine that submitted the job, unless this one has it too."""
    wanted = attempt.work.dataset or {}
    if wanted.get("archive") and attempt.is_away:
        return _unpacked_dataset(attempt, wanted)
    if wanted.get("path"):
        return _own_path(attempt, wanted["path"])
    if wanted.get("url"):
        return _by_url(attempt, wanted)
    return None


def with_file(
    attempt: Attempt, file: dict[str, Any], name: str, what: str, use: Callable[[str], None]
) -> None:
    """Fetch a file and use it: out of this machine's cache where there is one, else for this attempt alone."""

    def bring(target: str) -> None:
        fetch(attempt, file["url"], target, file["sha256"], what)

    cache = attempt.cache() if file["sha256"] else None
    if cache is None:
        target = attempt.home.join(name)
        bring(target)
        use(target)
        os.unlink(target)
        return
    with cache.holding(file["sha256"], bring, lambda: go_on(attempt)) as path:
        use(path)


def fetch(attempt: Attempt, url: str, target: str, sha256: str | None, what: str) -> None:
    try:
        download(attempt.server(), url, target, sha256, lambda: go_on(attempt))
    except Corrupt as error:
        raise CannotStart(f"{what} arrived damaged: {error}") from error
    except (Refused, Unreachable, ValueError) as error:
        raise CannotStart(f"{what} could not be downloaded: {error}") from error


def why(error: OSError, directory: str) -> str:
    """In words, for the owner of the job; a full disk with what there is of it."""
    if error.errno not in DISK_FULL:
        return str(error)
    disk = os.statvfs(directory)
    free, total = disk.f_bavail * disk.f_frsize / 2**30, disk.f_blocks * disk.f_frsize / 2**30
    return (
        f"the disk is full ({free:.1f} of {total:.1f} GiB free at {directory}); "
        "ask for more with resources.disk, or leave out what the job does not need"
    )


def _unpacked(attempt: Attempt) -> Callable[[str], None]:
    from anygpu.agent.unpack import Unsafe, unpack

    def use(path: str) -> None:
        try:
            unpack(path, attempt.home.work)
        except Unsafe as error:
            raise CannotStart(f"the working directory could not be unpacked: {error}") from error

    return use


def _own_path(attempt: Attempt, path: str) -> str:
    if attempt.is_away and not os.path.exists(path):
        raise CannotStart(
            f"the dataset is a path, {path}, which this machine does not have, and it was not sent along; "
            "name the backend when you submit the job (--on), or give the data as a URL"
        )
    return path


def _by_url(attempt: Attempt, wanted: dict[str, Any]) -> str:
    name = wanted["url"].split("?", 1)[0].rstrip("/").rpartition("/")[2] or "dataset"
    target = attempt.home.join("dataset", name)
    if os.path.exists(target):
        return target
    if not wanted.get("sha256") or attempt.cache() is None:
        fetch(attempt, wanted["url"], target, wanted.get("sha256"), "the dataset")
        return target
    with_file(
        attempt, wanted, os.path.join("dataset", name), "the dataset", lambda path: _linked(path, target)
    )
    return target


def _linked(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(path, target)
    except OSError:
        from anygpu.job import copy_file

        copy_file(path, target)


def _unpacked_dataset(attempt: Attempt, wanted: dict[str, Any]) -> str:
    from anygpu.agent.unpack import Unsafe, unpack

    root = attempt.home.join("dataset")

    def use(path: str) -> None:
        try:
            unpack(path, root)
        except Unsafe as error:
            raise CannotStart(f"the dataset could not be unpacked: {error}") from error

    with_file(attempt, wanted["archive"], "dataset.tar.gz", "the dataset", use)
    return os.path.join(root, wanted.get("entry") or "")
