"""Functions for training scripts: report metrics, progress and checkpoints. Outside a job they do nothing.

Each call appends one line to `points.jsonl` in the directory ANYGPU_DIR with a single write, so the line
survives a crash of the script. Errors never interrupt training: a warning is printed instead.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import stat
import sys
import time

from anygpu.bounds import MAX_INTEGER, is_count, is_fraction, is_step, to_metric_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["artifact", "best", "checkpoint", "log", "progress", "resume_path", "save", "should_stop"]

STOP_CHECK_S = 0.1
PROGRESS_INTERVAL_S = 0.2
WAIT_POLL_S = 0.05
COPY_BYTES = 2**26
STEP_RULE = f"a whole number from -{MAX_INTEGER} to {MAX_INTEGER}"
COUNT_RULE = f"a whole number from 0 to {MAX_INTEGER}"
# This file in a checkpoint marks a directory, so that it is restored as one even if it has a single file.
DIRECTORY_MARK = ".anygpu-checkpoint"

_directory = os.environ.get("ANYGPU_DIR", "")
# Metrics, checkpoints and artifacts come from rank 0 only, if anygpu started several processes.
_is_other_rank = "ANYGPU_LAUNCHER" in os.environ and os.environ.get("RANK", "0") != "0"
_fd = -1
_last_line_partial = False
_warned: set[str] = set()
_stop_requested = False
_stop_checked_at = float("-inf")
_pending_progress: dict[str, Any] = {}
_progress_written_at = float("-inf")


def log(metrics: Mapping[str, Any] | None = None, step: int | None = None, **more: Any) -> None:
    """Record metrics: `anygpu.log(loss=0.2, step=120)` or `anygpu.log({"val/loss": 0.2}, step=120)`."""
    if not _directory or _is_other_rank:
        return
    numbers = more if metrics is None else _merge(metrics, more)
    for value in numbers.values():
        if type(value) is not float and not is_step(value):
            numbers = _to_numbers(numbers)
            break
    line: dict[str, Any] = {"m": numbers, "t": time.time()}
    if step is not None:
        number = _to_int(step)
        if is_step(number):
            line["s"] = number
        else:
            _warn_invalid("the step of anygpu.log", step, f"{STEP_RULE}; its points are numbered 1, 2, 3")
    _append(line)


def progress(
    step: int | None = None,
    steps: int | None = None,
    epoch: int | None = None,
    epochs: int | None = None,
    message: str | None = None,
    fraction: float | None = None,
) -> None:
    """Report how far training has progressed.

    `epoch` is the number of completed epochs. An argument that is left out keeps its last value. The call is
    cheap: progress is written with the next `log`, or by itself at most five times a second.
    """
    if not _directory or _is_other_rank:
        return
    for name, value in (("step", step), ("steps", steps), ("epoch", epoch), ("epochs", epochs)):
        if value is not None:
            _add_progress(name, _to_count(value), value, COUNT_RULE)
    if fraction is not None:
        number = _to_number(fraction)
        _add_progress("fraction", number if is_fraction(number) else None, fraction, "a number from 0 to 1")
    if message is not None:
        _pending_progress["message"] = str(message)
    if time.monotonic() - _progress_written_at >= PROGRESS_INTERVAL_S:
        _append({})


def checkpoint(path: str | os.PathLike[str], step: int | None = None, wait: bool = False) -> None:
    """Upload a complete checkpoint, a file or a directory. A later attempt resumes from it.

    The checkpoint is copied before this function returns, so the script may overwrite it afterwards. With
    `wait`, the function returns when the upload has finished or failed.
    """
    number = None if step is None else _to_count(step)
    if _directory and step is not None and number is None:
        _warn_invalid("the step of anygpu.checkpoint", step, f"{COUNT_RULE}; the last logged step is used")
    snapshot = _announce("c", "checkpoints", path, {} if number is None else {"step": number})
    while wait and snapshot is not None and os.path.isdir(snapshot):
        time.sleep(WAIT_POLL_S)


def artifact(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Upload a result now, such as the best model so far. The file is copied before this function returns."""
    _announce("b", "artifacts", path, {} if name is None else {"name": str(name)})


save = artifact


def best(path: str | os.PathLike[str]) -> None:
    """Upload the best weights so far, a file or a directory. `anygpu fetch --model` downloads them."""
    suffix = "" if os.path.isdir(path) else os.path.splitext(os.fspath(path))[1]
    artifact(path, name=f"best/model{suffix}")


def resume_path() -> str | None:
    """Return the path of the checkpoint to resume from, a file or a directory; None for a fresh start."""
    return os.environ.get("ANYGPU_RESUME_PATH") or None


def should_stop() -> bool:
    """Return True if the job should save and exit: it is preempted, migrated, or out of budget or time.

    Cheap enough to call at every step.
    """
    global _stop_requested, _stop_checked_at
    if _stop_requested or not _directory:
        return _stop_requested
    now = time.monotonic()
    if now - _stop_checked_at >= STOP_CHECK_S:
        _stop_checked_at = now
        _stop_requested = os.path.exists(os.path.join(_directory, "stop"))
    return _stop_requested


def _merge(metrics: Mapping[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    try:
        return {**{str(name): value for name, value in metrics.items()}, **more}
    except AttributeError:
        _warn(
            f"anygpu.log takes a dictionary or name=value, not {type(metrics).__name__}; the value is ignored"
        )
        return more


def _to_numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Convert values to numbers (numpy and torch scalars by `.item()`). Other values are ignored with a warning."""
    numbers = {}
    for name, value in values.items():
        number = _to_number(value)
        if number is None:
            _warn(f"anygpu.log({name}=...) takes a number, not {type(value).__name__}; the value is ignored")
        elif to_metric_value(number) is None:
            _warn_invalid(f"the value of metric {name}", value, "a number that a float can represent")
        else:
            numbers[name] = number
    return numbers


def _to_number(value: Any) -> float | int | None:
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    try:
        return float(value.item())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None


def _to_int(value: Any) -> int | None:
    number = _to_number(value)
    try:
        return None if number is None else int(number)
    except (OverflowError, ValueError):
        return None


def _to_count(value: Any) -> int | None:
    number = _to_int(value)
    return number if is_count(number) else None


def _add_progress(name: str, number: float | None, given: Any, rule: str) -> None:
    if number is None:
        _warn_invalid(f"the {name} of anygpu.progress", given, rule)
    else:
        _pending_progress[name] = number


def _append(line: dict[str, Any]) -> None:
    """Append a line to points.jsonl with a single write, so that lines of threads and child processes do not mix."""
    global _fd, _last_line_partial, _progress_written_at, _pending_progress
    if not _directory or _is_other_rank:
        return
    if _pending_progress:
        line["p"], _pending_progress, _progress_written_at = _pending_progress, {}, time.monotonic()
    try:
        if _fd < 0:
            _fd = _open_channel()
        data = json.dumps(line).encode() + b"\n"
        written = os.write(_fd, b"\n" + data if _last_line_partial else data)
        _last_line_partial = written < len(data)
    except (OSError, TypeError, ValueError) as error:
        _warn(
            f"anygpu could not record metrics or progress on this machine: {error}. Training continues. Check "
            "the free disk space."
        )


def _open_channel() -> int:
    path = os.path.join(_directory, "points.jsonl")
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _after_fork() -> None:
    """Forget the open file in a child process. A daemon closes all descriptors, and their numbers are used again."""
    global _fd, _pending_progress
    _fd, _pending_progress = -1, {}


def _announce(kind: str, folder: str, path: str | os.PathLike[str], fields: dict[str, Any]) -> str | None:
    """Copy a file or directory, then announce the copy to the agent. Return its directory; None if copying failed."""
    if not _directory or _is_other_rank:
        return None
    try:
        source = os.path.abspath(os.fspath(path))
        snapshot = _new_folder(os.path.join(_directory, folder))
        copy_tree(source, os.path.join(snapshot, os.path.basename(source)))
        if kind == "c" and os.path.isdir(source):
            _touch(os.path.join(snapshot, os.path.basename(source), DIRECTORY_MARK))
    except (OSError, TypeError) as error:
        _warn(
            f"anygpu could not copy the checkpoint or artifact {path!s}: {error}. Training continues without "
            "it."
        )
        return None
    _append(
        {
            kind: {
                "path": source,
                "snapshot": os.path.relpath(snapshot, _directory),
                "t": time.time(),
                **fields,
            }
        }
    )
    return snapshot


def _new_folder(parent: str) -> str:
    os.makedirs(parent, exist_ok=True)
    number = len(os.listdir(parent)) + 1
    while True:
        try:
            os.mkdir(os.path.join(parent, str(number)))
            return os.path.join(parent, str(number))
        except FileExistsError:
            number += 1


def copy_tree(source: str, target: str) -> None:
    if not os.path.isdir(source):
        copy_file(source, target)
        return
    os.mkdir(target)
    for entry in os.scandir(source):
        if entry.is_dir() or entry.is_file():  # not a pipe, socket or device
            copy_tree(entry.path, os.path.join(target, entry.name))


def _touch(path: str) -> None:
    with open(path, "wb"):
        return


def open_regular(path: str, flags: int = 0) -> int:
    """Open a file for reading and return its descriptor. Raise OSError if it is a pipe, a device or a directory.

    Opening or reading those could block for ever. `flags` are added to the flags of `os.open`.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "this is not a regular file; save only files and directories", path)
    return fd


def copy_file(source: str, target: str) -> None:
    """Copy a file, inside the kernel if possible. That is instant on file systems that can share blocks."""
    with open(open_regular(source), "rb") as reading, open(target, "wb") as writing:
        copied = _copy_in_kernel(reading.fileno(), writing.fileno())
        if not copied:
            for block in iter(lambda: reading.read(2**20), b""):
                writing.write(block)


def _copy_in_kernel(reading: int, writing: int) -> bool:
    copy: Callable[[int, int, int], int] | None = getattr(os, "copy_file_range", None)
    if copy is None:
        return False
    try:
        while copy(reading, writing, COPY_BYTES):
            pass
        whole = os.fstat(writing).st_size >= os.fstat(reading).st_size
    except OSError:
        whole = False
    if not whole:
        # The kernel cannot copy between these file systems: start again from the beginning.
        os.lseek(reading, 0, os.SEEK_SET)
        os.ftruncate(writing, 0)
        os.lseek(writing, 0, os.SEEK_SET)
    return whole


def _warn(text: str) -> None:
    kind = text.split("(", 1)[0].split(":", 1)[0]
    if kind not in _warned:
        _warned.add(kind)
        sys.stderr.write(f"{text}\n")


def _warn_invalid(what: str, value: Any, rule: str) -> None:
    """Warn once that a value is ignored because it is not what `rule` says."""
    try:
        shown = repr(value)[:60]
    except ValueError:
        shown = "a whole number with thousands of digits"  # Python does not print it
    _warn(f"{what} is ignored: {shown} is not {rule}")


def _at_exit() -> None:
    if _pending_progress:
        _append({})


if _directory:
    os.register_at_fork(after_in_child=_after_fork)
    atexit.register(_at_exit)
