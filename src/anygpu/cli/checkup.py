"""What `anygpu doctor` looks at. Each look is a finding; none of them changes anything."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple

from anygpu import __version__, settings
from anygpu.cli import words
from anygpu.errors import AnygpuError
from anygpu.sdk import embedded
from anygpu.sdk.context import Context, endpoint_of, find
from anygpu.sdk.http import Endpoint, Http

OK, WARN, FAIL = "ok", "warn", "fail"
LITTLE_DISK, NO_DISK = 10 << 30, 1 << 30
SKEW_S = 30.0


class Finding(NamedTuple):
    state: str
    what: str
    said: str
    advice: str = ""


def everything(context_name: str = "") -> Iterator[Finding]:
    """All findings; what cannot be looked at is a finding too."""
    yield python()
    yield from _guarded("settings", lambda: [_settings()])
    yield from _guarded("state", lambda: [state(settings.load().state)])
    yield from _guarded("disk", lambda: [disk(settings.load().state)])
    yield gpus()
    yield from _guarded("server", lambda: server(find(context_name)))


def _guarded(what: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except AnygpuError as error:
        yield Finding(FAIL, what, error.message, error.hint)
    except OSError as error:
        yield Finding(
            FAIL, what, f"{error.strerror} ({error.filename})", "Check the path and its permissions."
        )


def python() -> Finding:
    said = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}, anygpu {__version__}"
    return Finding(OK, "python", said)


def _settings() -> Finding:
    path = settings.config_path()
    settings.load()
    return Finding(OK, "settings", str(path) if path.exists() else f"defaults ({path} is not there)")


def state(directory: Path) -> Finding:
    """The state directory holds a token: others must not read it."""
    if not directory.exists():
        return Finding(OK, "state", f"{directory} (made at the first start)")
    if not os.access(directory, os.W_OK | os.X_OK):
        return Finding(
            FAIL, "state", f"{directory} is not writable", "Change its owner, or set ANYGPU_STATE."
        )
    open_to_all = [
        path for path in (directory, directory / "token") if path.exists() and path.stat().st_mode & 0o077
    ]
    if open_to_all:
        names = " ".join(str(path) for path in open_to_all)
        return Finding(WARN, "state", f"others can read {names}", f"chmod go-rwx {names}")
    return Finding(OK, "state", str(directory))


def disk(directory: Path) -> Finding:
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    said = f"{words.size(free)} free at {there}"
    if free < NO_DISK:
        return Finding(
            FAIL, "disk", said, "Free some space: `anygpu gc`, or set ANYGPU_STATE to another disk."
        )
    if free < LITTLE_DISK:
        return Finding(
            WARN, "disk", said, "Checkpoints may fill it; `anygpu gc --dry-run` tells what can go."
        )
    return Finding(OK, "disk", said)


def gpus() -> Finding:
    """By nvidia-smi, as the agent counts them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding(OK, "gpus", f"none here (no nvidia-smi); jobs use {os.cpu_count()} processors")
    query = [tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            FAIL, "gpus", f"nvidia-smi does not answer ({error})", "Check the driver; a reboot often helps."
        )
    if done.returncode:
        return Finding(
            FAIL, "gpus", f"nvidia-smi: {done.stdout.strip() or done.stderr.strip()}", "Check the driver."
        )
    return Finding(OK, "gpus", "; ".join(done.stdout.strip().splitlines()))


def server(context: Context) -> Iterator[Finding]:
    """Reachable, of our version, and agreed with us on what time it is."""
    endpoint = _endpoint(context)
    if endpoint is None:
        yield Finding(OK, "server", "none runs on this machine; `anygpu run` starts one")
        yield _clock(None)
        return
    http = Http(lambda: endpoint, timeout_s=5, tries=1)
    answer = http.request("GET", "/api/v1/whoami")
    yield _version(endpoint, str((answer.json() or {}).get("server_version") or ""))
    yield _clock(answer.headers.get("date"))


def _endpoint(context: Context) -> Endpoint | None:
    if not context.embedded:
        return endpoint_of(context)
    found = embedded.running(embedded.state_dir())
    return found.endpoint if found is not None else None


def _version(endpoint: Endpoint, version: str) -> Finding:
    said = f"{endpoint.url} answers, version {version or 'unknown'}"
    if version and version.split(".")[:2] != __version__.split(".")[:2]:
        return Finding(
            WARN, "server", said, f"This client is {__version__}; use the same minor version on both."
        )
    return Finding(OK, "server", said)


def _clock(date: str | None) -> Finding:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    if now.year < 2025:
        return Finding(FAIL, "clock", f"it cannot be {now:%Y-%m-%d}", "Set the clock, or start NTP.")
    if date is None:
        return Finding(OK, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")
    skew_s = abs((now - parsedate_to_datetime(date)).total_seconds())
    if skew_s > SKEW_S:
        return Finding(WARN, "clock", f"{words.duration(skew_s)} off the server's", "Start NTP on both.")
    return Finding(OK, "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC, agrees with the server")
