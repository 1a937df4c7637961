"""The variables and commands with which the processes of a job start, and the wait for the other nodes."""

import socket
from typing import Any, cast

import pytest

from anygpu.agent.assignment import RankLayout
from anygpu.agent.link.client import RequestRefused, ServerClient
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.run.process import CannotStart
from anygpu.agent.run.ranks import (
    MasterAddress,
    rank_variables,
    torchrun_command,
    torchrun_variables,
    wait_for_nodes,
)

MASTER = MasterAddress("10.0.0.1", 4000)
PYTHON = "/venv/bin/python"
OPTIONS = [
    "--nnodes=2",
    "--node-rank=1",
    "--nproc-per-node=4",
    "--master-addr=10.0.0.1",
    "--master-port=4000",
    "--max-restarts=0",
]


def layout(launcher: str = "torchrun", **fields: Any) -> RankLayout:
    return RankLayout({"node": 1, "nodes": 2, "launcher": launcher, "processes_per_node": 4, **fields})


@pytest.mark.parametrize(
    ("argv", "target"),
    [
        ([PYTHON, "train.py", "--lr", "1"], ["train.py", "--lr", "1"]),
        ([PYTHON, "-m", "anygpu.trainers", "mlp", "{}"], ["-m", "anygpu.trainers", "mlp", "{}"]),
        (["python", "-u", "train.py"], ["--no-python", "python", "-u", "train.py"]),
        (["/bin/bash", "-c", "make"], ["--no-python", "/bin/bash", "-c", "make"]),
    ],
)
def test_torchrun_starts_scripts_modules_and_commands(argv: list[str], target: list[str]) -> None:
    command = torchrun_command(layout(), MASTER, argv, PYTHON, "/lib/torchrun_main.py")
    assert command == [PYTHON, "/lib/torchrun_main.py", *OPTIONS, *target]


def test_the_processes_get_the_address_and_without_a_launcher_their_rank() -> None:
    common = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000", "NODE_RANK": "1", "NNODES": "2"}
    assert rank_variables(layout(), MASTER) == {"ANYGPU_LAUNCHER": "torchrun", **common}
    ranks = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    assert rank_variables(layout("none"), MASTER) == {"ANYGPU_LAUNCHER": "none", **common, **ranks}


@pytest.mark.parametrize(("grace_s", "seconds"), [(10.0, "30"), (90.5, "91")])
def test_torchrun_does_not_kill_processes_before_the_agent(grace_s: float, seconds: str) -> None:
    assert torchrun_variables(grace_s) == {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": seconds}


class Answers:
    """A server that gives these answers to the requests of a node, and does not wait."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.requests = list(answers), list[Any]()
        self.address = self

    def wait(self, seconds: float) -> None:
        return

    def call(self, method: str, path: str, body: Any, timeout_s: float) -> Any:
        self.requests.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def wait(*answers: Any, missing: list[list[int]] | None = None, nodes: int = 2) -> tuple[str, int]:
    server = cast(ServerClient, Answers(*answers))
    seen = [] if missing is None else missing
    found = wait_for_nodes(server, layout(nodes=nodes), "h", None, lambda: None, seen.append)
    return found.host, found.port


START = {"start": True, "missing": [], "master_addr": "10.0.0.1", "master_port": 4000}


def test_a_node_waits_for_the_others_through_errors() -> None:
    missing: list[list[int]] = []
    waits = {"start": False, "missing": [0]}
    found = wait(Unreachable("x"), RequestRefused(503, {}), waits, waits, START, missing=missing)
    assert found == ("10.0.0.1", 4000)
    assert missing == [[0]]


@pytest.mark.parametrize(
    "foreign",
    [
        {"detail": "<html>Please log in</html>"},
        {"value": [1]},
        {"start": False},
        {"start": False, "missing": None},
        {"start": True, "master_addr": "10.0.0.1", "master_port": None},
    ],
)
def test_an_answer_that_is_not_of_an_anygpu_server_is_asked_for_again(foreign: dict[str, Any]) -> None:
    missing: list[list[int]] = []
    assert wait(foreign, START, missing=missing) == ("10.0.0.1", 4000)
    assert missing == []


class PortChecks(Answers):
    """Checks at each request whether another process could take the port that the node has announced."""

    def call(self, method: str, path: str, body: Any, timeout_s: float) -> Any:
        with pytest.raises(OSError, match="in use"):
            bind(body["port"])
        return super().call(method, path, body, timeout_s)


def bind(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("", port))


def test_the_port_of_a_node_is_reserved_until_all_are_ready() -> None:
    server = PortChecks({"start": False, "missing": [0]}, START)
    wait_for_nodes(cast(ServerClient, server), layout(), "h", True, lambda: None, lambda missing: None)
    assert [request["restored"] for request in server.requests] == [True, True]
    bind(server.requests[0]["port"])


def test_a_refusal_is_told_and_one_machine_waits_for_nobody() -> None:
    with pytest.raises(CannotStart, match="refused to let the nodes start"):
        wait(RequestRefused(422, {"code": "invalid"}))
    host, port = wait(nodes=1)
    assert host == "127.0.0.1"
    assert 0 < port < 65536
