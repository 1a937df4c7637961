"""The steps of docs/how-to/celery.md: add the backend, check it, look at the request, run a job."""

import json
import sys
from pathlib import Path

import pytest
from tests.acceptance.machines.cloud import Server
from tests.acceptance.workers.lab import SETTINGS, attempt_name, open_lab
from tests.contracts.backends.celery_workers import free_port, open_broker, open_worker

pytestmark = pytest.mark.extended


def test_the_backend_is_added_checked_and_used(tmp_path: Path) -> None:
    with open_broker(tmp_path / "broker") as broker:
        server = Server(tmp_path, "", **SETTINGS)
        try:
            add = ("backend", "add", "lab", "--kind", "celery")
            refused = server.anygpu(*add, "--set", "broker=amqp://127.0.0.1", code=65)
            assert "RabbitMQ is not supported" in refused
            server.anygpu(*add, "--set", f"broker=redis://127.0.0.1:{free_port()}/0", code=None)
            assert "does not answer" in server.anygpu("backend", "check", "lab", code=None)
            server.anygpu("backend", "rm", "lab", code=None)
            server.anygpu(*add, "--set", f"broker={broker.url}")
            assert "no worker of the queue gpu-training is alive" in server.anygpu("backend", "check", "lab")
            with open_worker(tmp_path, broker):
                checked = server.anygpu("backend", "check", "lab")
                assert "(Valkey 9." in checked
                assert "cpu0@lab1: no GPU" in checked
                script = tmp_path / "train.py"
                script.write_text("print('hello from a worker')")
                shown = server.anygpu("plan", "--native", "--on", "lab", str(script), cwd=tmp_path)
                assert '"task": "anygpu.start_attempt"' in shown
                assert "gpu-training.cpu0@lab1" in shown
                output = server.anygpu(
                    "run", "--on", "lab", "--python", sys.executable, str(script), cwd=tmp_path
                )
                assert "hello from a worker" in output
                (job,) = server.ask("GET", "training")["jobs"]
                assert server.wait(job["id"], "completed")["attempts"][0]["offer"] == "cpu0@lab1"
                hosts = json.dumps(server.ask("GET", "hosts"))
                assert "cpu0@lab1" in hosts
        finally:
            server.stop()


def test_a_worker_without_a_route_to_the_server_uses_the_relay(tmp_path: Path, undisturbed: str) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    relay = f'relay = "directory"\n[relay]\ndirectory = "{shared}"\n'
    with open_lab(tmp_path, relay) as lab:
        lab.worker()
        job = lab.submit(step_s=0.05)
        lab.wait_completed(job)
        assert lab.model(job) == undisturbed
        (ticket,) = lab.folder.glob(f"lab1/workers/cpu0/attempts/*/{attempt_name(job)}/ticket.json")
        fields = json.loads(ticket.read_text())
        assert "relay" in fields
        assert "url" not in fields
