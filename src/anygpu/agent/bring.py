"""What a job needs is brought to its machine: the working directory and the data, each fetched once and verified."""

from __future__ import annotations

import contextlib
import errno
import os

from anygpu.agent.fetch import Corrupt, download
from anygpu.agent.http11 import Unreachable
from anygpu.agent.process import CannotStart
from anygpu.agent.wire import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from anygpu.agent.attempt import Attempt

MOST_DATA_BYTES = 2**40
EXPIRED = (401, 403, 410)
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
    if not archive:
        return

    from anygpu.agent.unpack import Unsafe, unpack

    with _at_hand(attempt, archive, "work.tar.gz", "the working directory") as packed:
        try:
            unpack(packed, attempt.home.work)
        except Unsafe as error:
            raise CannotStart(f"the working directory could not be unpacked: {error}") from error


def dataset(attempt: Attempt, cwd: str) -> str | None:
    """Where the job finds its data. A path means the machine that submitted the job, unless this one has it too."""
    wanted = attempt.work.dataset or {}
    path = wanted.get("path")
    if path and wanted.get("parts") and (attempt.is_away or not os.path.exists(path)):
        return _sent_along(attempt, wanted["parts"], os.path.basename(path.rstrip("/")))
    if path:
        return _own_path(attempt, path, cwd)
    if wanted.get("url"):
        return _by_url(attempt, wanted)
    return None


@contextlib.contextmanager
def _at_hand(attempt: Attempt, file: dict[str, Any], name: str, what: str) -> Iterator[str]:
    """A file with a known hash: out of this machine's cache where there is one, else for this attempt alone."""

    def bring(target: str) -> None:
        fetch(attempt, file["url"], target, file["sha256"], what)

    cache = attempt.cache()
    if cache is not None:
        with cache.holding(file["sha256"], bring, lambda: go_on(attempt)) as path:
            yield path
        return
    target = attempt.home.join(name)
    bring(target)
    yield target
    os.unlink(target)


def fetch(attempt: Attempt, url: str, target: str, sha256: str | None, what: str) -> None:
    try:
        _downloaded(attempt, url, target, sha256)
    except Corrupt as error:
        raise CannotStart(f"{what} arrived damaged: {error}") from error
    except (Refused, Unreachable, ValueError) as error:
        raise CannotStart(f"{what} could not be downloaded: {error}") from error


def _downloaded(attempt: Attempt, url: str, target: str, sha256: str | None) -> None:
    """A signed address lives an hour, and much data takes longer: claiming again gives a new one."""
    try:
        download(attempt.server(), url, target, sha256, lambda: go_on(attempt))
    except Refused as refusal:
        fresh = attempt.claim_again().url_of(sha256) if sha256 and refusal.status in EXPIRED else None
        if fresh is None or fresh == url:
            raise
        download(attempt.server(), fresh, target, sha256, lambda: go_on(attempt))


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


def _own_path(attempt: Attempt, path: str, cwd: str) -> str:
    if attempt.is_away and not os.path.exists(os.path.join(cwd, path)):
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
    with _at_hand(attempt, wanted, "dataset.part", "the dataset") as path:
        _linked(path, target)
    return target


def _linked(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(path, target)
    except OSError:
        from anygpu.job import copy_file

        copy_file(path, target)


def _sent_along(attempt: Attempt, parts: list[dict[str, Any]], name: str) -> str:
    """Piece by piece, one at a time: each is in the cache afterwards, and none need lie here twice."""
    from anygpu.agent.unpack import Unsafe, unpack_pieces

    root = attempt.home.join("dataset")
    try:
        unpack_pieces(_pieces(attempt, parts), root, most_bytes=MOST_DATA_BYTES)
    except Unsafe as error:
        raise CannotStart(f"the dataset could not be unpacked: {error}") from error
    return os.path.join(root, name)


def _pieces(attempt: Attempt, parts: list[dict[str, Any]]) -> Iterator[str]:
    for number, part in enumerate(parts, 1):
        what = f"part {number} of {len(parts)} of the dataset"
        with _at_hand(attempt, part, "dataset.part", what) as path:
            yield path
