"""Other users of a machine see neither the secrets of a job nor the credentials of backends.

tests/clusters has the same for Slurm and Kubernetes.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.machines.cloud import BRISK, Cloud, Server
from tests.acceptance.machines.secret_traces import (
    agent_secrets,
    command_lines,
    find_words,
    native_request,
    readable_files,
    submit_with_secrets,
)
from tests.acceptance.machines.wired_host import open_wired_host
from tests.contracts.backends.celery_workers import TestBroker, open_broker, open_worker
from tests.walk import paths_below

pytestmark = [pytest.mark.extended, pytest.mark.timeout(180)]
PASSWORD = "marker-of-a-password-d04e"


class Machines:
    """A server with backends of four kinds that need credentials or start processes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        host, wire = stack.enter_context(open_wired_host(folder / "host"))
        self.broker: TestBroker = stack.enter_context(open_broker(folder / "broker", PASSWORD))
        cloud = Cloud(folder)
        stack.callback(cloud.stop)
        address = f"{host.user}@127.0.0.1:{wire.port}"
        options: dict[str, dict[str, Any]] = {
            "host": {"kind": "ssh", "host": address, "private_key": host.key.private_openssh},
            "lab": {"kind": "celery", "broker": self.broker.url, "password": PASSWORD},
        }
        tables = [
            f"[backends.{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in given.items())
            for name, given in options.items()
        ]
        settings = "\n".join([*tables, cloud.settings(ec2={"regions": ["us-east-1"]})])
        self.server = Server(folder, settings, **BRISK, ANYGPU_LOCAL__ENABLED="true")
        stack.callback(self.server.stop)
        url = self.broker.url.replace("redis://", f"redis://:{PASSWORD}@")
        self.worker = stack.enter_context(open_worker(folder, self.broker, url=url))
        self.credentials = [
            PASSWORD,
            cloud.about["credentials"]["ec2"][1],
            *host.key.private_openssh.splitlines()[1:-1],
        ]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with ExitStack() as stack:
        yield Machines(tmp_path_factory.mktemp("secrets"), stack)


@pytest.mark.parametrize(
    ("backend", "part"),
    [
        ("local", "(the one-time ticket of the attempt)"),
        ("host", "ssh -p"),
        ("lab", "anygpu.start_attempt"),
        ("ec2", "RunInstances"),
    ],
)
def test_the_native_request_has_no_secret(machines: Machines, backend: str, part: str) -> None:
    options = ("--paid",) if backend == "ec2" else ()
    shown = native_request(machines.server, backend, machines.folder, *options)
    assert part in shown
    secrets = ["marker-of-a-variable", "marker-of-a-secret", *machines.credentials]
    assert find_words(shown, secrets) == []


@pytest.mark.parametrize("backend", ["local", "host", "lab"])
def test_processes_files_and_the_broker_show_no_secret(machines: Machines, backend: str) -> None:
    job = submit_with_secrets(machines.server, backend)
    (work,) = [
        path
        for path in paths_below(machines.folder)
        if path.name == "work.json" and job.replace("-", "") in str(path)
    ]
    secrets = agent_secrets(work.parent)
    shown = (command_lines(), read_everything(machines.broker), (machines.worker.root / "log").read_text())
    words = [*secrets, *machines.credentials]
    assert [find_words(text, words) for text in shown] == [[], [], []]
    assert readable_files(work.parents[1], secrets) == []
    machines.server.anygpu("cancel", job)
    machines.server.wait(job, "cancelled", within_s=60)


def read_everything(broker: TestBroker) -> str:
    """Return the content of all keys of the broker."""
    client = broker.client
    readers: dict[bytes, Any] = {
        b"string": client.get,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1),
        b"hash": client.hgetall,
    }
    return "\n".join(f"{key} {readers[client.type(key)](key)}" for key in client.scan_iter())
