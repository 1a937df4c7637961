"""`anygpu doctor`: check this computer and the server. The checks change nothing."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import click

from anygpu import __version__, settings
from anygpu.cli import exits
from anygpu.cli.admin import checks
from anygpu.cli.admin.checks import FAIL, OK, WARN, CheckResult
from anygpu.cli.connection import context_option, json_option
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import AnygpuError, describe_error
from anygpu.installation import find_installation
from anygpu.sdk import embedded
from anygpu.sdk.client import Client
from anygpu.sdk.context import Context, endpoint_of, find_context
from anygpu.sdk.http import Endpoint, ServerConnection
from anygpu.sdk.upload.submission import find_interpreter

LOW_DISK_BYTES, MIN_DISK_BYTES = 10 << 30, 1 << 30
SKEW_S = 30.0


@dataclass(frozen=True, slots=True)
class JobData:
    """The dataset and trainer of the job that the user wants to run; empty if not given."""

    dataset: str = ""
    trainer: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


NO_DATA = JobData()


def run_checks(context_name: str = "", data: JobData = NO_DATA) -> Iterator[CheckResult]:
    """Run all checks. A check that raises an error is reported as failed."""
    python = find_interpreter()
    yield check_python()
    yield from checks.check_interpreter(python)
    yield from _run_check("settings", lambda: [check_settings()])
    yield from _run_check("state", lambda: [check_state(settings.load().state)])
    yield from _run_check("disk", lambda: [check_disk(settings.load().state)])
    yield check_gpus()
    yield from checks.check_torch(python)
    if data.dataset or data.trainer:
        yield from _run_check("dataset", lambda: checks.check_data(data.dataset, data.trainer, data.config))
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
    return CheckResult(OK, "python", f"{text} (installed with {find_installation().tool})")


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
    rows = done.stdout.strip().splitlines()
    advice = checks.driver_advice(rows[0].rpartition(", ")[2]) if rows else ""
    return CheckResult(WARN if advice else OK, "gpus", "; ".join(rows), advice)


def check_server(context: Context) -> Iterator[CheckResult]:
    """Check that the server answers, and compare its version and clock with those of this computer."""
    endpoint = _find_endpoint(context)
    if endpoint is None:
        advice = "`anygpu up -d` starts it now; `anygpu doctor` then also checks backends and free slots."
        yield CheckResult(OK, "server", "not running on this computer; `anygpu run` starts it", advice)
        yield _check_clock(None)
        return
    http = ServerConnection(lambda: endpoint, timeout_s=5, tries=1)
    answer = http.request("GET", "/api/v1/whoami")
    yield _check_version(endpoint, str((answer.json() or {}).get("server_version") or ""))
    yield from _list_warnings(http)
    yield _check_clock(answer.headers.get("date"))
    yield from checks.check_backends(Client(lambda: endpoint))


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
@click.option("--dataset", default="", help="Also check the format of this dataset.")
@click.option("--trainer", default="", help="Also check that this trainer can use the dataset.")
@click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE", help="Setting of the trainer. Repeatable."
)
@json_option
@context_option
@click.pass_context
def doctor_command(
    context: click.Context,
    /,
    dataset: str,
    trainer: str,
    sets: tuple[str, ...],
    as_json: bool,
    context_name: str,
) -> None:
    """Check whether a first job can run: this computer, the server, backends, and with --dataset the data.

    Each line shows ok, warn or fail, and what to do. The exit code is 1 if something failed.
    """
    results = list(run_checks(context_name, JobData(dataset, trainer, _trainer_settings(sets))))
    failed, warned = (sum(result.state == state for result in results) for state in (FAIL, WARN))
    if as_json:
        found = [result._asdict() for result in results]
        emit_json({"findings": found, "problems": failed, "warnings": warned})
    else:
        emit(result_line(result, colour=output.use_colour()) for result in results)
    context.exit(exits.FAILED if failed else exits.OK)


def _trainer_settings(sets: Sequence[str]) -> dict[str, Any]:
    from anygpu.spec.flags import from_flags

    return dict(from_flags({"config": list(sets)}).get("config") or {}) if sets else {}


def result_line(result: CheckResult, *, colour: bool) -> str:
    state = output.paint_status(f"{result.state:<4}", on=colour)
    advice = f"\n      {result.advice}" if result.advice else ""
    return f"{state}  {result.what:<9} {result.said}{advice}"
