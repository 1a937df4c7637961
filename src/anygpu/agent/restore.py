"""Resuming: the checkpoint is fetched, verified, and laid where the script looks for it."""

from __future__ import annotations

import os
import time

from anygpu.agent.bring import fetch
from anygpu.agent.digest import sha256_of_file
from anygpu.agent.fetch import Corrupt
from anygpu.agent.patterns import matches_a_folder
from anygpu.agent.process import CannotStart
from anygpu.job import DIRECTORY_MARK, copy_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.attempt import Attempt

OLDER_S = 1.0  # what was restored is older than what the job will write, also by a coarse clock


class Restored:
    """A checkpoint on this machine."""

    __slots__ = ("path", "step")

    def __init__(self, path: str, step: int) -> None:
        self.path = path
        self.step = step

    def arguments(self, resume_args: list[str]) -> list[str]:
        said = {"{path}": self.path, "{dir}": os.path.dirname(self.path), "{step}": str(self.step)}
        return [_replaced(argument, said) for argument in resume_args]


def restore(attempt: Attempt, cwd: str) -> Restored | None:
    """None when it cannot be had whole: then the job starts from the beginning, and its log says so."""
    resume = attempt.work.resume or {}
    step = int(resume.get("step") or 0)
    try:
        paths = [_bring(attempt, cwd, file) for file in resume["files"]]
        path = _starting_point(
            paths, attempt.work.checkpoint.paths, os.path.join(attempt.home.channel, "resume")
        )
    except (CannotStart, Corrupt, OSError) as error:
        attempt.report.line(
            f"the checkpoint of step {step} cannot be used: {error}; starting from the beginning"
        )
        return None
    attempt.report.line(f"resuming from the checkpoint of step {step}")
    return Restored(path, step)


def _bring(attempt: Attempt, cwd: str, file: dict[str, Any]) -> str:
    """Into `resume/`, and a copy to where the script itself had saved it."""
    relative = checked(file["path"])
    target = os.path.join(attempt.home.channel, "resume", relative)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as whole:
        for number, chunk in enumerate(file["chunks"]):
            part = f"{target}.{number}.chunk"
            fetch(attempt, chunk["url"], part, chunk["sha256"], relative)
            _move_to_end(part, whole.fileno())
    if sha256_of_file(target) != file["sha256"]:
        raise Corrupt(f"{relative} does not have the sha256 it was saved with")
    if os.path.basename(relative) == DIRECTORY_MARK:
        return relative
    original = os.path.join(cwd, relative)
    os.makedirs(os.path.dirname(original), exist_ok=True)
    copy_file(target, original)
    os.utime(original, (0, time.time() - OLDER_S))
    return relative


def _move_to_end(part: str, whole: int) -> None:
    with open(part, "rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            os.write(whole, block)
    os.unlink(part)


def _starting_point(paths: list[str], patterns: list[str], root: str) -> str:
    """A marked directory.

    The only file; the directory that a pattern names; else the newest file, which is first.
    """
    if not paths:
        raise Corrupt("it has no files")
    for path in paths:
        if os.path.basename(path) == DIRECTORY_MARK:
            return os.path.join(root, os.path.dirname(path))
    folder = matches_a_folder(paths[0], patterns) if len(paths) > 1 else None
    return os.path.join(root, folder or paths[0])


def checked(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or not path:
        raise Corrupt(f"{path!r} leads out of the working directory")
    return path


def _replaced(argument: str, said: dict[str, str]) -> str:
    for name, value in said.items():
        argument = argument.replace(name, value)
    return argument
