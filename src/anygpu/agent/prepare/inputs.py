"""Fetch the files a job needs: its working directory and its dataset."""

from __future__ import annotations

import os

from anygpu.agent.run.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from anygpu.agent.attempt_dir import AttemptDir
    from anygpu.agent.prepare.download import InputDownloader

MAX_DATASET_BYTES = 2**40


def fetch_working_directory(
    archive: dict[str, Any] | None, attempt_dir: AttemptDir, downloader: InputDownloader
) -> None:
    if not archive:
        return

    from anygpu.agent.prepare.unpack import UnsafeArchive, unpack

    with downloader.open_cached(archive, attempt_dir.join("work.tar.gz"), "the working directory") as packed:
        try:
            unpack(packed, attempt_dir.work_dir)
        except UnsafeArchive as error:
            raise CannotStart(f"the working directory could not be unpacked: {error}") from error


def fetch_dataset(
    dataset: dict[str, Any] | None,
    attempt_dir: AttemptDir,
    cwd: str,
    downloader: InputDownloader,
    is_remote: bool,
) -> str | None:
    """Return the path of the dataset on this machine; None if the job has no dataset.

    A dataset given as a path is on the submitter's machine. On another machine, the parts of the dataset that
    were uploaded with the job are downloaded. If nothing was uploaded, the same path must exist on this
    machine.
    """
    dataset = dataset or {}
    path = dataset.get("path")
    if path and dataset.get("parts") and (is_remote or not os.path.exists(path)):
        root = attempt_dir.join("dataset")
        _fetch_dataset_parts(dataset["parts"], root, attempt_dir.join("dataset.part"), downloader)
        return os.path.join(root, os.path.basename(path.rstrip("/")))
    if path:
        _check_local_dataset(path, cwd, is_remote)
        return str(path)
    if dataset.get("url"):
        return _fetch_dataset_url(dataset, attempt_dir, downloader)
    return None


def _check_local_dataset(path: str, cwd: str, is_remote: bool) -> None:
    if is_remote and not os.path.exists(os.path.join(cwd, path)):
        raise CannotStart(
            f"the dataset {path} does not exist on this machine, and it was not uploaded with the job. Choose "
            "the machine that has it with --on when you submit the job, or give the dataset as a URL "
            "(--dataset https://...)."
        )


def _fetch_dataset_url(dataset: dict[str, Any], attempt_dir: AttemptDir, downloader: InputDownloader) -> str:
    name = dataset["url"].split("?", 1)[0].rstrip("/").rpartition("/")[2] or "dataset"
    target = attempt_dir.join("dataset", name)
    if os.path.exists(target):
        return target
    if not dataset.get("sha256") or not downloader.has_cache:
        downloader.fetch(dataset["url"], target, dataset.get("sha256"), "the dataset")
        return target
    with downloader.open_cached(dataset, attempt_dir.join("dataset.part"), "the dataset") as path:
        _link_or_copy(path, target)
    return target


def _link_or_copy(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        os.link(path, target)
    except OSError:
        from anygpu.job import copy_file

        copy_file(path, target)


def _fetch_dataset_parts(
    parts: list[dict[str, Any]], root: str, fallback: str, downloader: InputDownloader
) -> None:
    """Download and unpack the parts of a dataset one after the other, so that only one part at a time is on disk."""
    from anygpu.agent.prepare.unpack import UnsafeArchive, unpack_parts

    try:
        unpack_parts(_fetch_parts(parts, fallback, downloader), root, max_bytes=MAX_DATASET_BYTES)
    except UnsafeArchive as error:
        raise CannotStart(f"the dataset could not be unpacked: {error}") from error


def _fetch_parts(parts: list[dict[str, Any]], fallback: str, downloader: InputDownloader) -> Iterator[str]:
    for number, part in enumerate(parts, 1):
        what = f"part {number} of {len(parts)} of the dataset"
        with downloader.open_cached(part, fallback, what) as path:
            yield path
