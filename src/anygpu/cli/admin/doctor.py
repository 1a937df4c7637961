"""`anygpu doctor`: check this computer and the server. The checks change nothing."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

import click

from anygpu import __version__, settings
from anygpu.cli import exits
from anygpu.cli.connection import context_option, json_option
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import AnygpuError, describe_error
from anygpu.sdk import embedded
from anygpu.sdk.context import Context, endpoint_of, find_context
from anygpu.sdk.http import Endpoint, ServerConnection

OK, WARN, FAIL = "ok", "warn", "fail"
LOW_DISK_BYTES, MIN_DISK_BYTES = 10 << 30, 1 << 30
SKEW_S = 30.0


class CheckResult(NamedTuple):
    """The result of one check: one line in the output of `anygpu doctor`."""

    state: str
    what: str
    said: str
    advice: str = ""


def run_checks(context_name: str = "") -> Iterator[CheckResult]:
    """Run all checks. A check that raises an error is reported as failed."""
    yield check_python()
    yield from _run_check("settings", lambda: [check_settings()])
    yield from _run_check("state", lambda: [check_state(settings.load().state)])
    yield from _run_check("disk", lambda: [check_disk(settings.load().state)])
    yield check_gpus()
    yield from _run_check("server", lambda: check_server(find_context(context_name)))


def _run_check(what: str, check: Callable[[], Iterable[CheckResult]]) -> Iterator[CheckResult]:
    try:
        yield from check()
    except AnygpuError as error:
        yield CheckResult(FAIL, what, error.message, error.hint)
    except OSError as error:
        yield CheckResult(FAIL, what, describe_error(error), "Check the path and its permissions.")


def check_python() -> CheckResult:
    text = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, anygpu {__version__}"
    return CheckResult(OK, "python", text)


def check_settings() -> CheckResult:
    path = settings.config_path()
    settings.load()
    return CheckResult(OK, "settings", str(path) if path.exists() else f"defaults ({path} does not exist)")


def check_state(directory: Path) -> CheckResult:
    """Check that the state directory is writable and, because it contains a token, private."""
    if not directory.exists():
        return CheckResult(OK, "state", f"{directory} (created at the first start)")
    if not os.access(directory, os.W_OK | os.X_OK):
        return CheckResult(
            FAIL, "state", f"{directory} is not writable", "Change its owner, or set ANYGPU_STATE."
        )
    open_to_all = [
        path for path in (directory, directory / "token") if path.exists() and path.stat().st_mode & 0o077
    ]
    if open_to_all:
        names = " ".join(str(path) for path in open_to_all)
        return CheckResult(WARN, "state", f"other users can read {names}", f"chmod go-rwx {names}")
    return CheckResult(OK, "state", str(directory))


def check_disk(directory: Path) -> CheckResult:
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    text = f"{formatting.size(free)} free at {existing}"
    if free < MIN_DISK_BYTES:
        return CheckResult(
            FAIL, "disk", text, "Free some space with `anygpu gc`, or set ANYGPU_STATE to another disk."
        )
    if free < LOW_DISK_BYTES:
        return CheckResult(
            WARN, "disk", text, "Checkpoints may fill it. `anygpu gc --dry-run` shows what can be deleted."
        )
    return CheckResult(OK, "disk", text)


def check_gpus() -> CheckResult:
    """List the GPUs of this computer with nvidia-smi, as the agent does."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return CheckResult(
            OK, "gpus", f"none (no nvidia-smi); jobs on this computer use {os.cpu_count()} CPUs"
        )
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(
            FAIL, "gpus", f"nvidia-smi does not answer ({error})", "Check the driver. A reboot often helps."
        )
    if done.returncode:
        return CheckResult(
            FAIL, "gpus", f"nvidia-smi: {done.stdout.strip() or done.stderr.strip()}", "Check the driver."
        )
    return CheckResult(OK, "gpus", "; ".join(done.stdout.strip().splitlines()))


def check_server(context: Context) -> Iterator[CheckResult]:
    """Check that the server answers, and compare its version and clock with those of this computer."""
    endpoint = _find_endpoint(context)
    if endpoint is None:
        yield CheckResult(OK, "server", "not running on this computer; `anygpu run` starts it")
        yield _check_clock(None)
        return
    http = ServerConnection(lambda: endpoint, timeout_s=5, tries=1)
    answer = http.request("GET", "/api/v1/whoami")
    yield _check_version(endpoint, str((answer.json() or {}).get("server_version") or ""))
    yield from _list_warnings(http)
    yield _check_clock(answer.headers.get("date"))


def _list_warnings(http: ServerConnection) -> Iterator[CheckResult]:
    """Yield what the server itself reports, such as damaged jobs."""
    for text in (http.request("GET", "/readyz").json() or {}).get("warnings", []):
        what, _, advice = str(text).partition(". ")
        yield CheckResult(WARN, "server", what, advice)


def _find_endpoint(context: Context) -> Endpoint | None:
    if not context.is_embedded:
        return endpoint_of(context)
    server = embedded.find_running(embedded.state_dir())
    return server.endpoint if server is not None else None


def _check_version(endpoint: Endpoint, version: str) -> CheckResult:
    text = f"{endpoint.url} answers, version {version or 'unknown'}"
    if version and version.split(".")[:2] != __version__.split(".")[:2]:
        return CheckResult(
            WARN,
            "server",
            text,
            f"This client has version {__version__}. Use the same minor version on both.",
        )
    return CheckResult(OK, "server", text)


def _check_clock(date: str | None) -> CheckResult:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    if now.year < 2025:
        return CheckResult(FAIL, "clock", f"the date {now:%Y-%m-%d} is wrong", "Set the clock, or start NTP.")
    if date is None:
        return CheckResult(OK, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")
    skew_s = abs((now - parsedate_to_datetime(date)).total_seconds())
    if skew_s > SKEW_S:
        return CheckResult(
            WARN, "clock", f"differs from the server's by {formatting.duration(skew_s)}", "Start NTP on both."
        )
    return CheckResult(OK, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, same as the server's")


@click.command(name="doctor")
@json_option
@context_option
@click.pass_context
def doctor_command(context: click.Context, /, as_json: bool, context_name: str) -> None:
    """Check this computer and the server. Each line shows ok, warn or fail, and what to do."""
    results = list(run_checks(context_name))
    if as_json:
        emit_json({"findings": [result._asdict() for result in results]})
    else:
        emit(result_line(result, colour=output.use_colour()) for result in results)
    context.exit(exits.FAILED if any(result.state == FAIL for result in results) else exits.OK)


def result_line(result: CheckResult, *, colour: bool) -> str:
    state = output.paint_status(f"{result.state:<4}", on=colour)
    advice = f"\n      {result.advice}" if result.advice else ""
    return f"{state}  {result.what:<9} {result.said}{advice}"
