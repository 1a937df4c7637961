"""What a job needs is brought to its machine: the working directory and the data, each fetched once and verified."""

from __future__ import annotations

import contextlib
import errno
import os

from anygpu.agent.link.client import RequestRefused
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.prepare.download import CorruptDownload, download
from anygpu.agent.run.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from anygpu.agent.attempt import AttemptRunner

MAX_DATASET_BYTES = 2**40
EXPIRED = (401, 403, 410)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Interrupted(Exception):
    """Something asked us to stop while we were preparing."""


def check_interrupted(attempt: AttemptRunner) -> None:
    """Asked now and then by what takes long: raises when we are to stop."""
    if attempt.loop.check_stop() is not None:
        raise Interrupted
    attempt.reporter.flush_when_due()


def fetch_working_directory(attempt: AttemptRunner) -> None:
    archive = attempt.job.archive
    if not archive:
        return

    from anygpu.agent.prepare.unpack import UnsafeArchive, unpack

    with _open_cached(attempt, archive, "work.tar.gz", "the working directory") as packed:
        try:
            unpack(packed, attempt.attempt_dir.work_dir)
        except UnsafeArchive as error:
            raise CannotStart(f"the working directory could not be unpacked: {error}") from error


def fetch_dataset(attempt: AttemptRunner, cwd: str) -> str | None:
    """Where the job finds its data. A path means the machine that submitted the job, unless this one has it too."""
    wanted = attempt.job.dataset or {}
    path = wanted.get("path")
    if path and wanted.get("parts") and (attempt.is_remote or not os.path.exists(path)):
        return _dataset_from_parts(attempt, wanted["parts"], os.path.basename(path.rstrip("/")))
    if path:
        return _local_dataset(attempt, path, cwd)
    if wanted.get("url"):
        return _dataset_from_url(attempt, wanted)
    return None


@contextlib.contextmanager
def _open_cached(attempt: AttemptRunner, file: dict[str, Any], name: str, what: str) -> Iterator[str]:
    """A file with a known hash: out of this machine's cache where there is one, else for this attempt alone."""

    def bring(target: str) -> None:
        fetch(attempt, file["url"], target, file["sha256"], what)

    cache = attempt.cache()
    if cache is not None:
        with cache.acquire(file["sha256"], bring, lambda: check_interrupted(attempt)) as path:
            yield path
        return
    target = attempt.attempt_dir.join(name)
    bring(target)
    yield target
    os.unlink(target)


def fetch(attempt: AttemptRunner, url: str, target: str, sha256: str | None, what: str) -> None:
    try:
        _download(attempt, url, target, sha256)
    except CorruptDownload as error:
        raise CannotStart(f"{what} arrived damaged: {error}") from error
    except (RequestRefused, Unreachable, ValueError) as error:
        raise CannotStart(f"{what} could not be downloaded: {error}") from error


def _download(attempt: AttemptRunner, url: str, target: str, sha256: str | None) -> None:
    """A signed address lives an hour, and much data takes longer: claiming again gives a new one."""
    try:
        download(attempt.connect(), url, target, sha256, lambda: check_interrupted(attempt))
    except RequestRefused as refusal:
        fresh = attempt.claim_again().url_for(sha256) if sha256 and refusal.status in EXPIRED else None
        if fresh is None or fresh == url:
            raise
        download(attempt.connect(), fresh, target, sha256, lambda: check_interrupted(attempt))


def describe_error(error: OSError, directory: str) -> str:
    """In words, for the owner of the job; a full disk with what there is of it."""
    if error.errno not in DISK_FULL:
        return str(error)
    disk = os.statvfs(directory)
    free, total = disk.f_bavail * disk.f_frsize / 2**30, disk.f_blocks * disk.f_frsize / 2**30
    return (
        f"the disk is full ({free:.1f} of {total:.1f} GiB free at {directory}); "
        "ask for more with resources.disk, or leave out what the job does not need"
    )


def _local_dataset(attempt: AttemptRunner, path: str, cwd: str) -> str:
    if attempt.is_remote and not os.path.exists(os.path.join(cwd, path)):
        raise CannotStart(
            f"the dataset is a path, {path}, which this machine does not have, and it was not sent along; "
            "name the backend when you submit the job (--on), or give the data as a URL"
        )
    return path


def _dataset_from_url(attempt: AttemptRunner, wanted: dict[str, Any]) -> str:
    name = wanted["url"].split("?", 1)[0].rstrip("/").rpartition("/")[2] or "dataset"
    target = attempt.attempt_dir.join("dataset", name)
    if os.path.exists(target):
        return target
    if not wanted.get("sha256") or attempt.cache() is None:
        fetch(attempt, wanted["url"], target, wanted.get("sha256"), "the dataset")
        return target
    with _open_cached(attempt, wanted, "dataset.part", "the dataset") as path:
        _link_or_copy(path, target)
    return target


def _link_or_copy(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(path, target)
    except OSError:
        from anygpu.job import copy_file

        copy_file(path, target)


def _dataset_from_parts(attempt: AttemptRunner, parts: list[dict[str, Any]], name: str) -> str:
    """Piece by piece, one at a time: each is in the cache afterwards, and none need lie here twice."""
    from anygpu.agent.prepare.unpack import UnsafeArchive, unpack_parts

    root = attempt.attempt_dir.join("dataset")
    try:
        unpack_parts(_fetch_parts(attempt, parts), root, most_bytes=MAX_DATASET_BYTES)
    except UnsafeArchive as error:
        raise CannotStart(f"the dataset could not be unpacked: {error}") from error
    return os.path.join(root, name)


def _fetch_parts(attempt: AttemptRunner, parts: list[dict[str, Any]]) -> Iterator[str]:
    for number, part in enumerate(parts, 1):
        what = f"part {number} of {len(parts)} of the dataset"
        with _open_cached(attempt, part, "dataset.part", what) as path:
            yield path
