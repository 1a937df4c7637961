"""Restore the checkpoint that a job resumes from: download it, verify it, copy it to where the script expects it."""

from __future__ import annotations

import os
import time

from anygpu.agent.checkpoints.snapshot import matching_folder
from anygpu.agent.files import file_sha256
from anygpu.agent.prepare.download import CorruptDownload
from anygpu.agent.run.process import CannotStart
from anygpu.job import DIRECTORY_MARK, copy_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.attempt_dir import JobDirectories
    from anygpu.agent.link.reporter import Reporter
    from anygpu.agent.prepare.download import InputDownloader

MTIME_MARGIN_S = 1.0  # restored files must be older than what the job writes, also with coarse file times


class RestoredCheckpoint:
    """A checkpoint that was restored to this machine."""

    __slots__ = ("path", "step")

    def __init__(self, path: str, step: int) -> None:
        self.path = path
        self.step = step

    def arguments(self, resume_args: list[str]) -> list[str]:
        """Return `resume_args` of the spec with {path}, {dir} and {step} filled in."""
        values = {"{path}": self.path, "{dir}": os.path.dirname(self.path), "{step}": str(self.step)}
        return [_substitute(argument, values) for argument in resume_args]


class PutBack:
    """Copies restored checkpoint files to the paths at which the script saved them.

    If the job runs in place, a different file of the user may be at such a path. It is renamed, never lost.
    """

    def __init__(self, directories: JobDirectories, job_id: str, reporter: Reporter) -> None:
        self._directories = directories
        self._suffix = f".anygpu-{job_id[-8:]}"
        self._reporter = reporter

    def copy(self, source: str, name: str) -> None:
        if os.path.basename(name) == DIRECTORY_MARK:
            return
        target = self._directories.path_of(name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if self._directories.in_place and os.path.lexists(target):
            if _same_content(source, target):
                return
            self._rename(target, name)
        copy_file(source, target)
        os.utime(target, (0, time.time() - MTIME_MARGIN_S))

    def _rename(self, path: str, name: str) -> None:
        kept, number = path + self._suffix, 1
        while os.path.lexists(kept):
            number += 1
            kept = f"{path}{self._suffix}-{number}"
        os.rename(path, kept)
        self._reporter.write_line(
            f"{name} existed with other content than in the checkpoint. It was renamed to "
            f"{os.path.basename(kept)}, and the file of the checkpoint took its place."
        )


def _same_content(first: str, second: str) -> bool:
    is_file = os.path.isfile(second) and os.path.getsize(first) == os.path.getsize(second)
    return is_file and file_sha256(first) == file_sha256(second)


def restore_checkpoint(
    resume: dict[str, Any],
    patterns: list[str],
    target_dir: str,
    put_back: PutBack,
    downloader: InputDownloader,
    reporter: Reporter,
) -> RestoredCheckpoint | None:
    """Restore a checkpoint to `target_dir`, and also to the paths at which the script saved it before.

    Return None if the checkpoint cannot be restored completely. The job then starts from the beginning, and
    its log says so.
    """
    step = int(resume.get("step") or 0)
    try:
        paths = [_fetch_file(file, target_dir, downloader) for file in resume["files"]]
        for name in paths:
            put_back.copy(os.path.join(target_dir, name), name)
        path = _resume_path(paths, patterns, target_dir)
    except (CannotStart, CorruptDownload, OSError) as error:
        reporter.write_line(
            f"The checkpoint of step {step} cannot be used: {error}. The job starts from the beginning."
        )
        return None
    reporter.write_line(f"The checkpoint of step {step} was restored.")
    return RestoredCheckpoint(path, step)


def _fetch_file(file: dict[str, Any], target_dir: str, downloader: InputDownloader) -> str:
    """Download a file to `target_dir`, and return its relative path."""
    relative = checked_relative_path(file["path"])
    target = os.path.join(target_dir, relative)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as whole:
        for number, chunk in enumerate(file["chunks"]):
            part = f"{target}.{number}.chunk"
            downloader.fetch(chunk["url"], part, chunk["sha256"], relative)
            _append_chunk(part, whole.fileno())
    if file_sha256(target) != file["sha256"]:
        raise CorruptDownload(
            f"the file {relative} of the checkpoint is damaged: its sha256 is not the one with which it was "
            "saved"
        )
    return relative


def _append_chunk(part: str, whole: int) -> None:
    with open(part, "rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            os.write(whole, block)
    os.unlink(part)


def _resume_path(paths: list[str], patterns: list[str], root: str) -> str:
    """Return the path that the script resumes from.

    If the checkpoint was saved as a directory (it contains the file DIRECTORY_MARK), this is that directory.
    Else it is the directory of the newest file, if a pattern matches that directory, or the newest file
    itself. `paths` starts with the newest file.
    """
    if not paths:
        raise CorruptDownload("the stored checkpoint contains no files")
    for path in paths:
        if os.path.basename(path) == DIRECTORY_MARK:
            return os.path.join(root, os.path.dirname(path))
    folder = matching_folder(paths[0], patterns) if len(paths) > 1 else None
    return os.path.join(root, folder or paths[0])


def checked_relative_path(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or not path:
        raise CorruptDownload(
            f"the checkpoint contains the path {path!r}, which is outside of the working directory"
        )
    return path


def _substitute(argument: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        argument = argument.replace(name, value)
    return argument
