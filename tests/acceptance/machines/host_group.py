"""A backend of several loopback SSH hosts, and a small program whose processes on all hosts work together."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.acceptance.machines.cloud import Server

from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, open_ssh_host

# Each step adds the numbers of all ranks, as the gradients of distributed training are added. Rank 0 collects them. A
# process that loses the connection to another one fails, as in torch.
PROGRAM = """
import json, os, socket, sys, time
import anygpu

folder, steps = sys.argv[1], int(sys.argv[2])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
assert (os.environ["NODE_RANK"], os.environ["NNODES"]) == (str(rank), str(world))
resumed = anygpu.resume_path()
state = json.load(open(resumed)) if resumed else {"step": 0, "sum": 0}
print(f"rank {rank} of {world} starts at step {state['step']}", flush=True)
with open(os.path.join(folder, f"{os.environ['ANYGPU_ATTEMPT']}-{rank}.pid"), "w") as file:
    file.write(str(os.getpid()))

def connect():
    if rank == 0:
        listener = socket.create_server(master)
        peers = [listener.accept()[0] for _ in range(world - 1)]
    else:
        peers = []
        while not peers:
            try:
                peers = [socket.create_connection(master)]
            except ConnectionRefusedError:
                time.sleep(0.02)
    return [peer.makefile("rw") for peer in peers]

def receive(peer):
    line = peer.readline()
    if not line:
        raise ConnectionError("connection closed by peer")
    return int(line)

def send(peer, value):
    peer.write(f"{value}\\n")
    peer.flush()

peers = connect()
while state["step"] < steps:
    number = (rank + 1) * (state["step"] + 1)
    if rank == 0:
        total = number + sum(map(receive, peers))
        for peer in peers:
            send(peer, total)
    else:
        send(peers[0], number)
        total = receive(peers[0])
    state = {"step": state["step"] + 1, "sum": state["sum"] + total}
    anygpu.log(total=total, step=state["step"])
    if rank == 0:
        with open("state.json", "w") as file:
            json.dump(state, file)
        anygpu.checkpoint("state.json", step=state["step"], wait=state["step"] % 5 == 0)
    while state["step"] >= steps // 2 and not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.02)
print(f"rank {rank} sum {state['sum']}", flush=True)
if rank == 0:
    with open("result.json", "w") as file:
        json.dump(state, file)
    anygpu.artifact("result.json")
"""


def expected_sum(ranks: int, steps: int) -> int:
    return sum((rank + 1) * (step + 1) for rank in range(ranks) for step in range(steps))


class HostGroup:
    """The backend `lab` of a server: several hosts, each with `cpus` CPU slots.

    `limit_s` is how long each step of a job may take.
    """

    def __init__(self, server: Server, hosts: list[SshTestHost], folder: Path, limit_s: float) -> None:
        self.server, self.hosts, self.folder, self.limit_s = server, hosts, folder, limit_s

    async def submit(self, nodes: int, steps: int = 10, **fields: Any) -> str:
        spec = {
            "code": PROGRAM.replace("sys.argv[1], int(sys.argv[2])", f"{str(self.folder)!r}, {steps}"),
            "python": sys.executable,
            "placement": {"allowed": ["lab"]},
            "resources": {"nodes": nodes, "cpus": 1},
            **fields,
        }
        return str(await asyncio.to_thread(lambda: self.server.submit(**spec)))

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return await asyncio.to_thread(self.server.ask, method, path, body)

    async def wait_until(self, job_id: str, condition: Any) -> dict[str, Any]:
        found: dict[str, Any] = await asyncio.to_thread(self.server.until, job_id, condition, self.limit_s)
        return found

    async def wait_ended(self, job_id: str, status: str) -> dict[str, Any]:
        found: dict[str, Any] = await asyncio.to_thread(
            self.server.wait, job_id, status, within_s=self.limit_s
        )
        return found

    async def pid_of(self, attempt: int, rank: int, folder: Path | None = None) -> int:
        """The process of a rank, once it runs."""
        path = (folder or self.folder) / f"{attempt}-{rank}.pid"
        async with asyncio.timeout(self.limit_s):
            while not path.exists() or not path.read_text():
                await asyncio.sleep(0.02)
        return int(path.read_text())

    def let_finish(self) -> None:
        (self.folder / "go").touch()

    async def result(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = await asyncio.to_thread(self.server.fetch_json, job_id, "result.json")
        return found

    def started_attempts(self) -> list[str]:
        """The names of the attempts for which an agent was started on a host."""
        tickets = [path for host in self.hosts for path in host.home.glob(".anygpu/attempts/*/*/ticket.json")]
        return sorted(path.parent.name for path in tickets)


@asynccontextmanager
async def open_host_group(
    server: Server, folder: Path, count: int, cpus: int = 1, name: str = "lab", limit_s: float = 90
) -> AsyncIterator[HostGroup]:
    async with AsyncExitStack() as stack:
        hosts = [
            await stack.enter_async_context(open_ssh_host(BEST_SERVER, folder / f"host{number}"))
            for number in range(count)
        ]
        body = {
            "name": name,
            "kind": "ssh",
            "options": {"hosts": [f"{host.user}@127.0.0.1:{host.port}" for host in hosts], "cpus": cpus},
            "credentials": {"private_key": hosts[0].key.private_openssh},
        }
        await asyncio.to_thread(server.ask, "POST", "backends", body)
        try:
            yield HostGroup(server, hosts, folder, limit_s)
        finally:
            await asyncio.to_thread(server.anygpu, "backend", "rm", name, "--force")
