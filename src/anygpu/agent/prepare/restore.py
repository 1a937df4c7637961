"""Resuming: the checkpoint is fetched, verified, and laid where the script looks for it."""

from __future__ import annotations

import os
import time

from anygpu.agent.checkpoints.snapshot import matching_folder
from anygpu.agent.files import file_sha256
from anygpu.agent.prepare.download import CorruptDownload
from anygpu.agent.prepare.inputs import fetch
from anygpu.agent.run.process import CannotStart
from anygpu.job import DIRECTORY_MARK, copy_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.attempt import AttemptRunner

MTIME_MARGIN_S = 1.0  # what was restored is older than what the job will write, also by a coarse clock


class RestoredCheckpoint:
    """A checkpoint on this machine."""

    __slots__ = ("path", "step")

    def __init__(self, path: str, step: int) -> None:
        self.path = path
        self.step = step

    def arguments(self, resume_args: list[str]) -> list[str]:
        said = {"{path}": self.path, "{dir}": os.path.dirname(self.path), "{step}": str(self.step)}
        return [_substitute(argument, said) for argument in resume_args]


def restore_checkpoint(attempt: AttemptRunner, cwd: str) -> RestoredCheckpoint | None:
    """None when it cannot be had whole: then the job starts from the beginning, and its log says so."""
    resume = attempt.job.resume or {}
    step = int(resume.get("step") or 0)
    try:
        paths = [_fetch_file(attempt, cwd, file) for file in resume["files"]]
        path = _resume_path(
            paths, attempt.job.checkpoint.paths, os.path.join(attempt.attempt_dir.channel_dir, "resume")
        )
    except (CannotStart, CorruptDownload, OSError) as error:
        attempt.reporter.write_line(
            f"the checkpoint of step {step} cannot be used: {error}; starting from the beginning"
        )
        return None
    attempt.reporter.write_line(f"resuming from the checkpoint of step {step}")
    return RestoredCheckpoint(path, step)


def _fetch_file(attempt: AttemptRunner, cwd: str, file: dict[str, Any]) -> str:
    """Into `resume/`, and a copy to where the script itself had saved it."""
    relative = checked_relative_path(file["path"])
    target = os.path.join(attempt.attempt_dir.channel_dir, "resume", relative)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as whole:
        for number, chunk in enumerate(file["chunks"]):
            part = f"{target}.{number}.chunk"
            fetch(attempt, chunk["url"], part, chunk["sha256"], relative)
            _append_chunk(part, whole.fileno())
    if file_sha256(target) != file["sha256"]:
        raise CorruptDownload(f"{relative} does not have the sha256 it was saved with")
    if os.path.basename(relative) == DIRECTORY_MARK:
        return relative
    original = os.path.join(cwd, relative)
    os.makedirs(os.path.dirname(original), exist_ok=True)
    copy_file(target, original)
    os.utime(original, (0, time.time() - MTIME_MARGIN_S))
    return relative


def _append_chunk(part: str, whole: int) -> None:
    with open(part, "rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            os.write(whole, block)
    os.unlink(part)


def _resume_path(paths: list[str], patterns: list[str], root: str) -> str:
    """A marked directory.

    The only file; the directory that a pattern names; else the newest file, which is first.
    """
    if not paths:
        raise CorruptDownload("it has no files")
    for path in paths:
        if os.path.basename(path) == DIRECTORY_MARK:
            return os.path.join(root, os.path.dirname(path))
    folder = matching_folder(paths[0], patterns) if len(paths) > 1 else None
    return os.path.join(root, folder or paths[0])


def checked_relative_path(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or not path:
        raise CorruptDownload(f"{path!r} leads out of the working directory")
    return path


def _substitute(argument: str, said: dict[str, str]) -> str:
    for name, value in said.items():
        argument = argument.replace(name, value)
    return argument
