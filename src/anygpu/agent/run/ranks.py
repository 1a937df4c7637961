"""Start the processes of a job that has several: on several nodes, with torchrun, or both.

Each node waits until all nodes are prepared. Then all nodes start, with the address at which the processes find each
other.
"""

from __future__ import annotations

import math
import os
import socket

from anygpu.agent.link.client import Backoff, RequestRefused
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.run.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from anygpu.agent.assignment import RankLayout
    from anygpu.agent.link.client import ServerClient

LOOPBACK = "127.0.0.1"
WAIT_S = 5.0  # how long one request waits for the other nodes
ANY_REMOTE_HOST = "192.0.2.1"  # an address for documentation, which no machine has
DISCARD_PORT = 9
PYTHON_NAMES = ("python", "python3")
TORCHRUN_GRACE_S = 30


class MasterAddress:
    """Where the processes of a job find each other: the address of node 0, and a port that is free there."""

    __slots__ = ("host", "port")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


def wait_for_nodes(
    server: ServerClient,
    layout: RankLayout,
    address: str,
    restored: bool | None,
    check_interrupted: Callable[[], None],
    on_missing: Callable[[list[int]], None],
) -> MasterAddress:
    """Tell the server that this node is prepared, and wait until all nodes are.

    `restored` says whether this node has the checkpoint that the job resumes from; None if there is none. If not all
    nodes have it, the server lets none start.
    `on_missing` is called with the nodes that are not prepared, when their list changes. The port of this node stays
    reserved until then, because that may take minutes.
    """
    if layout.nodes == 1:
        return MasterAddress(LOOPBACK, free_port())
    with _reserve_port() as reserved:
        request: dict[str, Any] = {"address": address, "port": _port_of(reserved)}
        if restored is not None:
            request["restored"] = restored
        return _poll_until_ready(server, request, check_interrupted, on_missing)


def _poll_until_ready(
    server: ServerClient,
    request: dict[str, Any],
    check_interrupted: Callable[[], None],
    on_missing: Callable[[list[int]], None],
) -> MasterAddress:
    backoff = Backoff()
    missing: list[int] = []
    while True:
        check_interrupted()
        try:
            answer = server.call("POST", f"/agent/v1/ready?wait_s={WAIT_S:g}", request, timeout_s=WAIT_S + 10)
        except Unreachable:
            server.address.wait(backoff.next_s())
            continue
        except RequestRefused as refusal:
            if not refusal.is_transient and not refusal.is_rejection:
                raise CannotStart(f"the server refused to let the nodes start: {refusal}") from refusal
            server.address.wait(backoff.next_s(refusal.retry_after_s))
            continue
        try:
            master, now_missing = _parse_answer(answer)
        except (
            KeyError,
            TypeError,
            ValueError,
        ):  # not the answer of an anygpu server, such as a proxy's page
            server.address.wait(backoff.next_s())
            continue
        backoff.reset()
        if master is not None:
            return master
        if now_missing != missing:
            missing = now_missing
            on_missing(missing)


def _parse_answer(answer: dict[str, Any]) -> tuple[MasterAddress | None, list[int]]:
    """Return the address at which the processes meet, if all nodes are prepared, and the nodes that are not."""
    if answer["start"]:
        return MasterAddress(str(answer["master_addr"]), int(answer["master_port"])), []
    return None, [int(node) for node in answer["missing"]]


def rank_variables(layout: RankLayout, master: MasterAddress) -> dict[str, str]:
    """Return the environment variables with which the processes find each other.

    torchrun sets the rank of each process itself.
    """
    env = {
        "ANYGPU_LAUNCHER": layout.launcher,
        "MASTER_ADDR": master.host,
        "MASTER_PORT": str(master.port),
        "NODE_RANK": str(layout.node),
        "NNODES": str(layout.nodes),
    }
    if layout.launcher == "none":
        env.update(RANK=str(layout.node), WORLD_SIZE=str(layout.nodes), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    return env


def torchrun_variables(grace_s: float) -> dict[str, str]:
    """Return the variables that let the processes of torchrun use the time between SIGTERM and SIGKILL.

    torchrun kills its processes 30 seconds after SIGTERM, unless it is told to wait longer. Versions of torch that do
    not know the variable ignore it.
    """
    return {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(TORCHRUN_GRACE_S, math.ceil(grace_s)))}


def torchrun_command(
    layout: RankLayout, master: MasterAddress, argv: Sequence[str], python: str, starter: str
) -> list[str]:
    """Return the command that starts the processes of this node with torchrun.

    `starter` is the path of `torchrun_main.py` on this machine. The rendezvous is static: torchrun starts no process
    again, so that all processes of the job end when one of them fails, and resume together.
    """
    options = [
        f"--nnodes={layout.nodes}",
        f"--node-rank={layout.node}",
        f"--nproc-per-node={layout.processes_per_node}",
        f"--master-addr={master.host}",
        f"--master-port={master.port}",
        "--max-restarts=0",
    ]
    is_python = argv[0] == python or argv[0] in PYTHON_NAMES
    if is_python and len(argv) > 2 and argv[1] == "-m":
        target = ["-m", *argv[2:]]
    elif is_python and len(argv) > 1 and not argv[1].startswith("-"):
        target = list(argv[1:])
    else:
        target = ["--no-python", *argv]
    return [python, starter, *options, *target]


def own_address(server_url: str) -> str:
    """Return an address of this machine that other machines can probably reach.

    It is the address from which this machine reaches the server, or other networks if the server is on the same machine
    or behind a tunnel. Without a network it is the host name.
    """
    from urllib.parse import urlsplit

    for host in (urlsplit(server_url).hostname or LOOPBACK, ANY_REMOTE_HOST):
        found = _address_towards(host)
        if found and not found.startswith("127."):
            return found
    return os.uname().nodename


def _address_towards(host: str) -> str:
    """Return the address of the interface that leads to `host`; empty if there is none. Sends nothing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, DISCARD_PORT))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def free_port() -> int:
    """Return a port of this machine that no process uses now."""
    with _reserve_port() as reserved:
        return _port_of(reserved)


def _reserve_port() -> socket.socket:
    """Return a socket with a port of its own, which no other process can use until the socket is closed."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.bind(("", 0))
    return reserved


def _port_of(reserved: socket.socket) -> int:
    return int(reserved.getsockname()[1])
