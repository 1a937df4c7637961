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
from anygpu.errors import AnygpuError
from anygpu.sdk import embedded
from anygpu.sdk.context import Context, endpoint_of, find_context
from anygpu.sdk.http import Endpoint, ServerConnection

OK, WARN, FAIL = "ok", "warn", "fail"
LOW_DISK_BYTES, MIN_DISK_BYTES = 10 << 30, 1 << 30
SKEW_S = 30.0


class CheckResult(NamedTuple):
    state: str
    what: str
    said: str
    advice: str = ""


def run_checks(context_name: str = "") -> Iterator[CheckResult]:
    """All findings; what cannot be looked at is a finding too."""
    yield check_python()
    yield from _run_check("settings", lambda: [check_settings()])
    yield from _run_check("state", lambda: [check_state(settings.load().state)])
    yield from _run_check("disk", lambda: [check_disk(settings.load().state)])
    yield check_gpus()
    yield from _run_check("server", lambda: check_server(find_context(context_name)))


def _run_check(what: str, look: Callable[[], Iterable[CheckResult]]) -> Iterator[CheckResult]:
    try:
        yield from look()
    except AnygpuError as error:
        yield CheckResult(FAIL, what, error.message, error.hint)
    except OSError as error:
        yield CheckResult(
            FAIL, what, f"{error.strerror} ({error.filename})", "Check the path and its permissions."
        )


def check_python() -> CheckResult:
    said = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, anygpu {__version__}"
    return CheckResult(OK, "python", said)


def check_settings() -> CheckResult:
    path = settings.config_path()
    settings.load()
    return CheckResult(OK, "settings", str(path) if path.exists() else f"defaults ({path} is not there)")


def check_state(directory: Path) -> CheckResult:
    """The state directory holds a token: others must not read it."""
    if not directory.exists():
        return CheckResult(OK, "state", f"{directory} (made at the first start)")
    if not os.access(directory, os.W_OK | os.X_OK):
        return CheckResult(
            FAIL, "state", f"{directory} is not writable", "Change its owner, or set ANYGPU_STATE."
        )
    open_to_all = [
        path for path in (directory, directory / "token") if path.exists() and path.stat().st_mode & 0o077
    ]
    if open_to_all:
        names = " ".join(str(path) for path in open_to_all)
        return CheckResult(WARN, "state", f"others can read {names}", f"chmod go-rwx {names}")
    return CheckResult(OK, "state", str(directory))


def check_disk(directory: Path) -> CheckResult:
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    said = f"{formatting.size(free)} free at {there}"
    if free < MIN_DISK_BYTES:
        return CheckResult(
            FAIL, "disk", said, "Free some space: `anygpu gc`, or set ANYGPU_STATE to another disk."
        )
    if free < LOW_DISK_BYTES:
        return CheckResult(
            WARN, "disk", said, "Checkpoints may fill it; `anygpu gc --dry-run` tells what can go."
        )
    return CheckResult(OK, "disk", said)


def check_gpus() -> CheckResult:
    """By nvidia-smi, as the agent counts them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return CheckResult(OK, "gpus", f"none here (no nvidia-smi); jobs use {os.cpu_count()} processors")
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(
            FAIL, "gpus", f"nvidia-smi does not answer ({error})", "Check the driver; a reboot often helps."
        )
    if done.returncode:
        return CheckResult(
            FAIL, "gpus", f"nvidia-smi: {done.stdout.strip() or done.stderr.strip()}", "Check the driver."
        )
    return CheckResult(OK, "gpus", "; ".join(done.stdout.strip().splitlines()))


def check_server(context: Context) -> Iterator[CheckResult]:
    """Reachable, of our version, and agreed with us on what time it is."""
    endpoint = _find_endpoint(context)
    if endpoint is None:
        yield CheckResult(OK, "server", "none runs on this machine; `anygpu run` starts one")
        yield _check_clock(None)
        return
    http = ServerConnection(lambda: endpoint, timeout_s=5, tries=1)
    answer = http.request("GET", "/api/v1/whoami")
    yield _check_version(endpoint, str((answer.json() or {}).get("server_version") or ""))
    yield _check_clock(answer.headers.get("date"))


def _find_endpoint(context: Context) -> Endpoint | None:
    if not context.is_embedded:
        return endpoint_of(context)
    found = embedded.find_running(embedded.state_dir())
    return found.endpoint if found is not None else None


def _check_version(endpoint: Endpoint, version: str) -> CheckResult:
    said = f"{endpoint.url} answers, version {version or 'unknown'}"
    if version and version.split(".")[:2] != __version__.split(".")[:2]:
        return CheckResult(
            WARN, "server", said, f"This client is {__version__}; use the same minor version on both."
        )
    return CheckResult(OK, "server", said)


def _check_clock(date: str | None) -> CheckResult:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    if now.year < 2025:
        return CheckResult(FAIL, "clock", f"it cannot be {now:%Y-%m-%d}", "Set the clock, or start NTP.")
    if date is None:
        return CheckResult(OK, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")
    skew_s = abs((now - parsedate_to_datetime(date)).total_seconds())
    if skew_s > SKEW_S:
        return CheckResult(
            WARN, "clock", f"{formatting.duration(skew_s)} off the server's", "Start NTP on both."
        )
    return CheckResult(OK, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, agrees with the server")


@click.command(name="doctor")
@json_option
@context_option
@click.pass_context
def doctor_command(context: click.Context, /, as_json: bool, context_name: str) -> None:
    """Check this machine and the server; every line says ok, warn or fail, and what to do."""
    findings = list(run_checks(context_name))
    if as_json:
        emit_json({"findings": [finding._asdict() for finding in findings]})
    else:
        emit(result_line(finding, colour=output.use_colour()) for finding in findings)
    context.exit(exits.FAILED if any(finding.state == FAIL for finding in findings) else exits.OK)


def result_line(finding: CheckResult, *, colour: bool) -> str:
    state = output.paint_status(f"{finding.state:<4}", on=colour)
    advice = f"\n      {finding.advice}" if finding.advice else ""
    return f"{state}  {finding.what:<9} {finding.said}{advice}"
