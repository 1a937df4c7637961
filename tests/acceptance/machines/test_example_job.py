"""The example job with checkpoints on this machine, on an SSH host and on a Celery worker.

Interrupted in each one's own ways, it ends with the model of an undisturbed run, and nothing is left.
tests/clusters has the same for Slurm and Kubernetes.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.machines.cloud import BRISK, Server
from tests.acceptance.machines.wired_host import open_wired_host
from tests.clusters.example_job import STEPS, make_project, model_bytes, recovery_codes, submit
from tests.contracts.backends.celery_workers import QUEUE, open_broker, open_worker, wait_until
from tests.walk import paths_below

from anygpu.agent.attempt_dir import remove_old_attempts
from anygpu.agent.host import processes

pytestmark = [pytest.mark.extended, pytest.mark.timeout(180)]
TWO_DAYS_S = 2 * 86_400


class Machines:
    """A server, and the three machines on which its jobs run: `local`, `host` and `lab`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._project = make_project(folder)
        self.host, self.wire = stack.enter_context(open_wired_host(folder / "host"))
        self.broker = stack.enter_context(open_broker(folder / "broker"))
        options = {
            "host": {
                "kind": "ssh",
                "host": f"{self.host.user}@127.0.0.1:{self.wire.port}",
                "private_key": self.host.key.private_openssh,
            },
            "lab": {"kind": "celery", "broker": self.broker.url},
        }
        settings = "\n".join(
            f"[backends.{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in given.items())
            for name, given in options.items()
        )
        environment = {**BRISK, "ANYGPU_AGENT__LEASE_S": "60", "ANYGPU_LOCAL__ENABLED": "true"}
        self.server = Server(folder, settings, **environment)
        stack.callback(self.server.stop)
        self.worker = stack.enter_context(open_worker(folder, self.broker))

    def submit(self, backend: str) -> str:
        return submit(self.server, self._project, backend)

    def directory(self, job: str) -> Path:
        """Return the directory of the newest attempt, on whichever machine it is."""
        name = f"anygpu-{job.replace('-', '')}-{self.server.job(job)['attempt']}"
        (found,) = [
            path for path in paths_below(self.folder) if path.name == name and (path / "agent.json").exists()
        ]
        return found

    def running(self) -> list[str]:
        """Return the attempts of these machines that have processes."""
        known = {path.name for path in self.attempt_directories()}
        return [name for name in processes.processes_by_attempt() if name in known]

    def attempt_directories(self) -> list[Path]:
        return [
            path
            for path in paths_below(self.folder)
            if path.match("anygpu-*-?") and path.parent.name != "mailboxes"
        ]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("machines")
    with ExitStack() as stack:
        yield Machines(folder, stack)
    assert "Traceback" not in (log := (folder / "server.log").read_text()), log


@pytest.fixture(scope="module")
def model(machines: Machines) -> bytes:
    """The model of a run without interruption."""
    job = machines.submit("local")
    ended = machines.server.wait(job, "completed", "failed", within_s=60)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["failure"]
    return model_bytes(machines.server, job)


def process_id(directory: Path, file: str) -> int:
    return int(json.loads((directory / file).read_text())["pid"])


def kill_agent(machines: Machines, job: str) -> None:
    os.kill(process_id(machines.directory(job), "agent.json"), signal.SIGKILL)


def kill_script(machines: Machines, job: str) -> None:
    os.kill(process_id(machines.directory(job), "process.json"), signal.SIGKILL)


def kill_everything(machines: Machines, job: str) -> None:
    """End all processes of the attempt, as a machine that is switched off does."""
    assert processes.kill_attempt(machines.directory(job).name)


def kill_server(machines: Machines, job: str) -> None:
    machines.server.kill()
    machines.server.start()


def cut_wire(machines: Machines, job: str) -> None:
    """Cut the connection to the host until the script has ended."""
    script = process_id(machines.directory(job), "process.json")
    machines.wire.take_down()
    wait_until(lambda: not Path(f"/proc/{script}").exists(), within_s=60, what="the end of the script")
    machines.wire.bring_up()


def kill_worker(machines: Machines, job: str) -> None:
    machines.worker.kill()
    time.sleep(1)
    machines.worker.start()


def restart_broker(machines: Machines, job: str) -> None:
    machines.broker.stop(keep_data=False)
    time.sleep(2)
    machines.broker.start()


@pytest.mark.parametrize(
    ("backend", "interrupt", "codes"),
    [
        ("local", kill_agent, {"machine_lost"}),
        ("local", kill_script, {"killed"}),
        ("local", kill_everything, {"machine_lost"}),
        ("local", kill_server, set()),
        ("host", kill_agent, {"machine_lost"}),
        ("host", kill_script, {"killed"}),
        ("host", kill_everything, {"machine_lost"}),
        ("host", cut_wire, set()),
        ("host", kill_server, set()),
        ("lab", kill_agent, {"machine_lost"}),
        ("lab", kill_script, {"killed"}),
        ("lab", kill_everything, {"machine_lost"}),
        ("lab", kill_worker, set()),
        ("lab", restart_broker, set()),
        ("lab", kill_server, set()),
    ],
)
def test_an_interrupted_job_resumes_and_makes_the_same_model(
    machines: Machines,
    model: bytes,
    backend: str,
    interrupt: Callable[[Machines, str], None],
    codes: set[str],
) -> None:
    job = machines.submit(backend)
    machines.server.until(job, lambda each: bool(each["checkpoint"]))
    interrupt(machines, job)
    ended = machines.server.wait(job, "completed", "failed", within_s=120)
    assert ended["status"] == "completed", ended["failure"]
    assert set(recovery_codes(machines.server, job)) == codes
    assert ended["attempt"] == 1 + len(codes)
    assert {each["backend"] for each in ended["attempts"]} == {backend}
    assert model_bytes(machines.server, job) == model
    assert model.startswith(f"[{STEPS}, ".encode())
    assert ("resumed at step" in machines.server.anygpu("logs", job)) is bool(codes)
    assert_nothing_is_left(machines)


def assert_nothing_is_left(machines: Machines) -> None:
    """No process runs, nothing waits to be sent, the broker has only reports, and directories are removed later."""
    reports = f"anygpu:{QUEUE}:worker"
    wait_until(lambda: machines.running() == [], what="the end of all processes")
    wait_until(lambda: all(key.startswith(reports) for key in machines.broker.contents()), what="empty books")
    assert machines.worker.attempts() == {}
    directories = machines.attempt_directories()
    wait_until(lambda: not any((each / "work.json").exists() for each in directories), what="all deliveries")
    for parent in {each.parent for each in directories}:
        remove_old_attempts(str(parent), (), time.time() + TWO_DAYS_S)
    assert machines.attempt_directories() == []
