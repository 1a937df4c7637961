"""`anygpu worker` and `anygpu workers` as a person uses them, with two GPUs that a stand-in for nvidia-smi lists."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.backends.celery_workers import (
    QUEUE,
    TestBroker,
    free_port,
    kill_deliveries,
    open_broker,
    wait_until,
)

from anygpu.backends.celery.backend import CeleryBackend
from anygpu.backends.celery.messages import REPORT_EXPIRY_S
from anygpu.backends.celery.options import CeleryOptions
from anygpu.backends.contract import LaunchRequest, MachineState, Observation
from anygpu.events.offers import Handle
from anygpu.spec.sections import Gpu, Resources
from anygpu.testing.servers.agent_listener import AgentListener

SMI = """#!/bin/sh
echo "GPU-aaaa, NVIDIA T4, 15360, 550.1"
echo "GPU-bbbb, NVIDIA A100-SXM4-80GB, 81920, 550.1"
"""


class Machine:
    """The commands of one machine: its programs, its state directory and its locks."""

    def __init__(self, folder: Path, broker: TestBroker, *, gpus: bool = True) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        if gpus:
            (programs / "nvidia-smi").write_text(SMI)
            (programs / "nvidia-smi").chmod(0o755)
        self.environ = {
            **os.environ,
            "HOME": str(folder),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "ANYGPU_STATE": str(folder / "state"),
            "ANYGPU_GPU_LOCKS": str(folder / "locks"),
            "CELERY_BROKER_URL": broker.url,
            "COLUMNS": "200",
        }

    def anygpu(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "anygpu", *words],
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def workers(self, *words: str) -> list[dict[str, Any]]:
        return list(json.loads(self.anygpu("workers", *words, "--json"))["workers"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestBroker]:
    with open_broker(tmp_path / "broker") as made:
        yield made


@pytest.fixture
def machine(tmp_path: Path, broker: TestBroker) -> Iterator[Machine]:
    made = Machine(tmp_path, broker)
    yield made
    made.anygpu("workers", "stop", "--now")


def states(workers: list[dict[str, Any]]) -> dict[str, str]:
    return {each["name"].partition("@")[0]: each["state"] for each in workers}


@pytest.mark.extended
def test_workers_start_scale_status_and_stop(machine: Machine, broker: TestBroker) -> None:
    assert states(machine.workers("start", "--host", "lab1")) == {"gpu0": "idle", "gpu1": "idle"}
    assert states(machine.workers("start", "--host", "lab1")) == {"gpu0": "idle", "gpu1": "idle"}
    shown = machine.anygpu("workers", "status")
    assert "gpu0@lab1  idle   NVIDIA T4" in shown
    assert "gpu1@lab1  idle   NVIDIA A100-SXM4-80GB" in shown
    (first, second) = machine.workers("status")
    assert (first["queue"], first["gpus"][0]["uuid"], first["problem"]) == (QUEUE, "GPU-aaaa", "")
    assert Path(first["log"]).read_text()
    assert "at most 2 workers, not 3" in machine.anygpu("workers", "scale", "3", code=2)
    os.kill(second["pid"], signal.SIGKILL)
    wait_until(lambda: states(machine.workers("status")) == {"gpu0": "idle", "gpu1": "ended"})
    assert states(machine.workers("scale", "2")) == {"gpu0": "idle", "gpu1": "idle"}
    assert states(machine.workers("scale", "1")) == {"gpu0": "idle"}
    assert "There is no running worker 'gpu7'" in machine.anygpu("workers", "stop", "gpu7", code=2)
    assert "Stopped gpu0@lab1." in machine.anygpu("workers", "stop", "gpu0")
    assert machine.anygpu("workers", "stop") == "No worker runs on this machine.\n"
    assert all(key.startswith(f"anygpu:{QUEUE}:worker") for key in broker.contents())


@pytest.mark.extended
async def test_one_process_for_each_gpu_and_a_job_sees_only_its_own(
    machine: Machine, broker: TestBroker
) -> None:
    command = [sys.executable, "-m", "anygpu", "worker", "--all-gpus"]
    parent = subprocess.Popen(command, env=machine.environ, stderr=subprocess.DEVNULL)
    backend = CeleryBackend(
        "lab", CeleryOptions(broker=broker.url, gpu_prices=("a100=1500000",)), secret=b"s"
    )
    try:
        host = wait_until(lambda: _worker_host(broker, 2))
        with AgentListener(
            {"shell": "echo sees $CUDA_VISIBLE_DEVICES, $CELERY_BROKER_URL.; sleep 1000"}
        ) as listener:
            need = Resources(gpu=Gpu(kind="A100", count=1))
            offers = {offer.name: offer for offer in await backend.offers(need)}
            offer = offers[f"gpu1@{host}"]
            assert (offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib) == ("NVIDIA A100-SXM4-80GB", 1, 80)
            assert (offer.price_microusd_per_hour, offers[f"gpu0@{host}"].price_microusd_per_hour) == (
                1500000,
                0,
            )
            name = f"anygpu-{'ab' * 16}-1"
            launch = LaunchRequest(
                name=name, job_id="j", attempt=1, ticket=name, agent_url=listener.url, resources=need
            )
            handle = await backend.launch(launch, offer)
            wait_until(lambda: b"sees GPU-bbbb, ." in listener.output)
            busy = {each.name: each.free for each in await backend.offers(need)}
            assert busy == {f"gpu0@{host}": 1, f"gpu1@{host}": 0}
            await backend.terminate(handle)
            assert (await _probe(backend, handle)).state is MachineState.GONE
    finally:
        parent.terminate()
        assert parent.wait(60) == 0
        await backend.close()
        kill_deliveries(machine.folder)


async def _probe(backend: CeleryBackend, handle: Handle) -> Observation:
    return await backend.probe(handle)


def _worker_host(broker: TestBroker, count: int) -> str:
    keys = [key for key in broker.contents() if key.startswith(f"anygpu:{QUEUE}:worker:")]
    return keys[0].rpartition("@")[2] if len(keys) == count else ""


@pytest.mark.extended
async def test_a_worker_that_is_stopped_now_lets_its_job_save_first(
    machine: Machine, broker: TestBroker
) -> None:
    machine.workers("start", "--cpu", "--host", "lab1")
    backend = CeleryBackend("lab", CeleryOptions(broker=broker.url), secret=b"s")
    with AgentListener({"shell": "trap 'echo saving; exit 0' TERM; sleep 1000 & wait"}) as listener:
        name = f"anygpu-{'ef' * 16}-1"
        launch = LaunchRequest(
            name=name, job_id="j", attempt=1, ticket=name, agent_url=listener.url, resources=Resources()
        )
        [offer] = await backend.offers(Resources())
        handle = await backend.launch(launch, offer)
        wait_until(lambda: states(machine.workers("status")) == {"cpu0": "busy"})
        wait_until(lambda: listener.claims)
        assert name in machine.anygpu("workers", "status")
        assert "Stopping cpu0@lab1: no new jobs start there" in machine.anygpu("workers", "scale", "0")
        assert "Stopped cpu0@lab1." in machine.anygpu("workers", "stop", "--now")
        assert [each["outcome"] for each in listener.ends] == ["stopped"]
        assert (await backend.probe(handle)).state is MachineState.GONE
    await backend.close()


@pytest.mark.extended
def test_a_worker_that_cannot_log_in_is_disconnected(machine: Machine, broker: TestBroker) -> None:
    broker.client.config_set("requirepass", "secret")
    (worker,) = machine.workers("start", "--cpu", "--count", "1", "--host", "lab1")
    assert worker["state"] == "disconnected"
    assert "requires a password, and none is given" in worker["problem"]


@pytest.mark.extended
def test_what_is_wrong_is_said_before_anything_starts(machine: Machine, broker: TestBroker) -> None:
    def refusal(*words: str) -> str:
        return machine.anygpu("worker", *words, code=2)

    assert "Use --all-gpus, or choose with --gpu" in refusal()
    assert "There is no GPU '7' on this machine. GPUs: 0 (NVIDIA T4), 1 (NVIDIA A100-SXM4-80GB)" in refusal(
        "--gpu", "7"
    )
    assert "must be of the same model" in refusal("--gpu", "0", "--gpu", "1")
    assert "Give only one of --gpu, --all-gpus and --cpu" in refusal("--cpu", "--all-gpus")
    assert "RabbitMQ is not supported" in refusal("--cpu", "--broker", "amqp://x")
    assert "'sqs' is not supported" in refusal("--cpu", "--broker", "sqs://x")
    assert "write rediss://" in refusal("--cpu", "--ca-file", "ca.pem")
    assert "is not a valid name of a worker" in refusal("--cpu", "--name", "../x")
    assert "is not a valid name" in refusal("--cpu", "--queue", "a b")
    assert "'soon'" in refusal("--cpu", "--drain", "soon")
    machine.workers("start", "--cpu", "--host", "lab1")
    again = machine.anygpu("worker", "--cpu", "--name", "cpu0@lab1", code=73)
    assert "The worker cpu0@lab1 already runs on this machine" in again


@pytest.mark.extended
def test_a_name_that_another_machine_uses_is_refused(
    machine: Machine, broker: TestBroker, tmp_path: Path
) -> None:
    machine.workers("start", "--cpu", "--host", "lab1")
    (tmp_path / "other").mkdir()
    other = Machine(tmp_path / "other", broker, gpus=False)
    refused = other.anygpu("worker", "--cpu", "--name", "cpu0@lab1", code=73)
    assert "A worker with the name cpu0@lab1 is alive on" in refused
    machine.anygpu("workers", "stop")
    # Until this report expires, the worker counts as stopped and not as lost.
    assert broker.client.ttl(f"anygpu:{QUEUE}:worker:cpu0@lab1") > REPORT_EXPIRY_S
    assert states(other.workers("start", "--cpu", "--host", "lab1")) == {"cpu0": "idle"}
    other.anygpu("workers", "stop")


def test_background_workers_use_the_given_broker_whatever_the_variables_say(
    machine: Machine, broker: TestBroker
) -> None:
    broker.client.config_set("requirepass", "secret")
    (machine.folder / "password").write_text("secret\n")
    wrong = f"redis://127.0.0.1:{free_port()}/0"
    machine.environ |= {"CELERY_BROKER_URL": wrong, "ANYGPU_BROKER_URL": wrong}
    login = ("--password-file", str(machine.folder / "password"))
    (worker,) = machine.workers("start", "--cpu", "--count", "1", "--broker", broker.url, *login)
    assert (worker["state"], worker["problem"], worker["broker"]) == ("idle", "", broker.url)


def test_a_worker_waits_for_a_broker_that_is_not_there_yet(machine: Machine) -> None:
    machine.environ["CELERY_BROKER_URL"] = f"redis://127.0.0.1:{free_port()}/0"
    (worker,) = machine.workers("start", "--cpu")
    assert "does not answer" in worker["problem"]
    machine.anygpu("workers", "stop")
