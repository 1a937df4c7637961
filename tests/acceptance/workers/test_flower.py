"""Flower, unchanged: it shows the workers, and the attempts that run."""

import base64
import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.backends.celery_workers import (
    QUEUE,
    TestBroker,
    free_port,
    open_broker,
    open_worker,
    wait_until,
)

from anygpu.backends.celery.backend import CeleryBackend
from anygpu.backends.celery.options import CeleryOptions
from anygpu.backends.contract import LaunchRequest, MachineState
from anygpu.spec.sections import Resources
from anygpu.testing.servers.agent_listener import AgentListener

LOGIN = "me:secret"


class Flower:
    def __init__(self, folder: Path, broker: TestBroker) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "celery", "-A", "anygpu.backends.celery.app", "flower"]
        options = ["--address=127.0.0.1", f"--port={self.port}", f"--basic-auth={LOGIN}"]
        environ = {**os.environ, "CELERY_BROKER_URL": broker.url}
        with (folder / "flower.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *options], env=environ, stdout=log, stderr=log, cwd=folder
            )

    def ask(self, path: str, *, login: str = LOGIN, method: str = "GET") -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/{path}", method=method)
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        data = b"" if method == "POST" else None
        with urllib.request.urlopen(request, data=data, timeout=10) as answer:
            return json.load(answer)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            self.ask("workers")
            return True
        return False


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestBroker]:
    with open_broker(tmp_path / "broker") as made:
        yield made


@pytest.fixture
def flower(tmp_path: Path, broker: TestBroker) -> Iterator[Flower]:
    made = Flower(tmp_path, broker)
    wait_until(made.is_ready, what="Flower's start")
    yield made
    made.process.terminate()
    made.process.wait(20)


async def test_flower_shows_workers_and_running_attempts_and_can_stop_one(
    flower: Flower, broker: TestBroker, tmp_path: Path
) -> None:
    backend = CeleryBackend("lab", CeleryOptions(broker=broker.url), secret=b"s")
    with open_worker(tmp_path, broker) as worker, AgentListener({"shell": "sleep 1000"}) as listener:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            flower.ask("workers", login="me:wrong")
        name = f"anygpu-{'cd' * 16}-1"
        launch = LaunchRequest(
            name=name,
            job_id="j",
            attempt=1,
            ticket="the ticket",
            agent_url=listener.url,
            resources=Resources(),
        )
        [offer] = await backend.offers(Resources())
        handle = await backend.launch(launch, offer)
        wait_until(lambda: listener.claims)
        shown = wait_until(lambda: flower.ask("tasks").get(name), what="the task in Flower")
        assert (shown["name"], shown["worker"]) == ("anygpu.start_attempt", worker.name)
        assert wait_until(lambda: flower.ask(f"task/info/{name}")["state"] == "STARTED")
        assert "the ticket" not in json.dumps(shown)

        def find_worker() -> Any:
            found = flower.ask(f"workers?refresh=true&workername={worker.name}").get(worker.name) or {}
            return found if {"active_queues", "active"} <= found.keys() else None

        about = wait_until(find_worker, what="the worker in Flower")
        assert {each["name"] for each in about["active_queues"]} == {QUEUE, f"{QUEUE}.{worker.name}"}
        assert [each["id"] for each in about["active"]] == [name]  # it answers while the attempt runs
        assert "the ticket" not in json.dumps(about)
        flower.ask(f"task/revoke/{name}?terminate=true", method="POST")
        wait_until(lambda: listener.ends, what="the agent's end")
        assert listener.ends[0]["outcome"] == "stopped"
        wait_until(lambda: worker.attempts() == {})
        assert (await backend.probe(handle)).state is MachineState.GONE
        assert worker.process.poll() is None
    await backend.close()
