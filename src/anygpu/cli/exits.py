"""Exit codes, and the message printed when a command fails."""

import sys
from typing import Final

import click

from anygpu.errors import AnygpuError, describe_error
from anygpu.installation import with_command_name
from anygpu.printable import printable

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
    "no_backend_fits": INVALID,
    "max_cost_too_low": INVALID,
    "needs_snapshot": INVALID,
    "bad_trace": INVALID,
    "not_found": NOT_FOUND,
    "blob_missing": NOT_FOUND,
    "server_unreachable": UNREACHABLE,
    "server_failed": UNREACHABLE,
    "internal": INTERNAL,
    "conflict": REFUSED,
    "needs_paid_consent": REFUSED,
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
    """Print what went wrong to standard error and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, KeyboardInterrupt | click.Abort):
        print_message("Interrupted.")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
        return BROKEN_PIPE
    return _report_failure(error)


def _report_failure(error: BaseException) -> int:
    if isinstance(error, AnygpuError):
        print_message(str(error))
        return exit_code_of(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print(error.format_message(), file=sys.stderr)
        return USAGE
    if isinstance(error, click.ClickException):
        print_message(_usage_message(error))
        return USAGE
    if isinstance(error, OSError):
        print_message(f"{describe_error(error)}.")
        return FAILED
    print_message(
        f"{type(error).__name__}: {error}. This is a bug in anygpu; report it with the traceback (ANYGPU_DEBUG=1)."
    )
    return INTERNAL


def print_message(text: str) -> None:
    """Print a message for the user to standard error."""
    print(f"anygpu: {printable(with_command_name(text))}", file=sys.stderr)


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message()
    stop = "" if message.endswith((".", "!", "?", "?)")) else "."
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "anygpu"
    return f"{message}{stop} Try `{path} --help`."


def _discard_stdout() -> None:
    # The program that read our output has ended. Without this line, Python prints a second error at exit.
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
