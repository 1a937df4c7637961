"""Every test stays on loopback and away from the real user's files and cloud credentials."""

import contextlib
import gc
import os
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

QUIET = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "NO_GCE_CHECK": "true",
    "GCE_METADATA_HOST": "127.0.0.1:9",
    "HF_HUB_OFFLINE": "1",
    "YOLO_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "DO_NOT_TRACK": "1",
}
os.environ.update(QUIET)
for name in [name for name in os.environ if name.startswith("ANYGPU_")]:
    del os.environ[name]

with contextlib.suppress(ImportError):  # the environment of tests/trainers may not have it
    from hypothesis import HealthCheck, settings

    # How long an example takes says more about the load of the machine than about the code.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")

_connect = socket.socket.connect
PROGRAM_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"
NOT_INSTALLED = "is not installed"


def _only_loopback(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(str(address[0])):
        raise AssertionError(f"a test tried to reach {address}; tests stay on loopback")
    _connect(self, address)


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host in ("::1", "localhost")


LONGEST = (
    "test_deadline.py",
    "test_migration.py",
    "test_histories.py",
    "test_first_hour.py",
    "test_lost_machines.py",
    "test_planted.py",
    "test_crash_points.py",
    "test_commands.py",
    "test_machines.py",
    "test_new_job.py",
    "test_jobs_many.py",
    "test_views.py",
    "test_settings.py",
    "test_bad_input.py",
    "test_sections.py",
    "test_crash.py",
    "test_jobs.py",
    "test_trainer_on_cloud.py",
    "test_demo.py",
    "test_openapi.py",
    "test_roles.py",
    "test_charts.py",
    "test_log.py",
    "test_job.py",
    "test_job_cloud.py",
    "test_histories_sql.py",
    "test_accuracy.py",
    "test_fair_share.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, so that none is left to one worker at the end."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONGEST)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs_program"):
        if shutil.which(mark.args[0], path=PROGRAM_PATH) is None:
            pytest.skip(f"{mark.args[0]} {NOT_INSTALLED}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the programs that were missing, and how many tests were skipped for each."""
    missing: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if reason.endswith(NOT_INSTALLED):
            missing[reason.removeprefix("Skipped: ").removesuffix(f" {NOT_INSTALLED}")] += 1
    for program, count in sorted(missing.items()):
        terminalreporter.write_line(f"{program} {NOT_INSTALLED}: {count} tests that need it were skipped.")


def pytest_collection_finish() -> None:
    """What is loaded by now stays: a twelfth of the time of a simulated history went into looking through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def stay_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _only_loopback)


@pytest.fixture(scope="session", autouse=True)
def leave_no_agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Agents outlive their server by design; those of a test must not outlive the suite."""
    yield
    from anygpu.agent.host import processes

    base = str(tmp_path_factory.getbasetemp())
    for pids in processes.processes_by_attempt().values():
        for pid in pids:
            if _works_in(pid, base):
                os.kill(pid, signal.SIGKILL)


def _works_in(pid: int, directory: str) -> bool:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink()).startswith(directory)
    except OSError:
        return False
