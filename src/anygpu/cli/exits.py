"""How a command ends: one line that says what, where and what to do, and a documented exit code."""

import sys
from typing import Final

import click

from anygpu.errors import AnygpuError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INVALID: Final = 65
NOT_FOUND: Final = 66
UNREACHABLE: Final = 69
INTERNAL: Final = 70
REFUSED: Final = 73
TRY_AGAIN: Final = 75
NOT_ALLOWED: Final = 77
BAD_SETTINGS: Final = 78
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
CANCELLED: Final = 143

EXIT_CODES: Final = {
    "invalid_spec": INVALID,
    "bad_trace": INVALID,
    "not_found": NOT_FOUND,
    "blob_missing": NOT_FOUND,
    "server_unreachable": UNREACHABLE,
    "server_failed": UNREACHABLE,
    "internal": INTERNAL,
    "conflict": REFUSED,
    "unsafe_path": REFUSED,
    "blob_corrupt": REFUSED,
    "too_large": REFUSED,
    "unauthorized": NOT_ALLOWED,
    "forbidden": NOT_ALLOWED,
    "invalid_settings": BAD_SETTINGS,
    "job_failed": FAILED,
}


def exit_code_of(error: AnygpuError) -> int:
    return EXIT_CODES.get(error.code, TRY_AGAIN if error.retryable else FAILED)


def report_error(error: BaseException) -> int:
    """Say what went wrong on standard error; the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, KeyboardInterrupt | click.Abort):
        print_message("interrupted")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
        return BROKEN_PIPE
    return _report_failure(error)


def _report_failure(error: BaseException) -> int:
    if isinstance(error, AnygpuError):
        print_message(str(error))
        return exit_code_of(error)
    if isinstance(error, click.ClickException):
        print_message(_usage_message(error))
        return USAGE
    if isinstance(error, OSError):
        print_message(_os_error_message(error))
        return FAILED
    print_message(f"{type(error).__name__}: {error}. This is a bug in anygpu; ANYGPU_DEBUG=1 shows where.")
    return INTERNAL


def print_message(text: str) -> None:
    print(f"anygpu: {text}", file=sys.stderr)


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message()
    stop = "" if message.endswith((".", "!", "?", "?)")) else "."
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "anygpu"
    return f"{message}{stop} Try `{path} --help`."


def _os_error_message(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}."


def _discard_stdout() -> None:
    # Whoever read our output has gone; Python would complain once more while it shuts down.
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
