"""A simulated cloud of machines without processes: real addresses and SSH servers, agents that are coroutines.

`python -m bench.stub_machines` prints where it is, obeys its standard input (`preempt 300`), and ends with that.
"""

import asyncio
import contextlib
import gc
import json
import random
import re
import signal
import sys
from typing import Any

import asyncssh
import uvloop

from anygpu.cloudsim import CloudSim, CloudTiming, SimOptions
from anygpu.cloudsim.cloud import CapacityLimits
from anygpu.cloudsim.instance import Instance
from anygpu.cloudsim.machine.directory import public_key
from anygpu.cloudsim.machine.network import MachineNetwork
from anygpu.cloudsim.machine.real import host_key_block
from anygpu.cloudsim.machine.ssh_server import AsyncsshServer, new_host_key
from anygpu.cloudsim.machine.user_data import parse_user_data
from bench.stub_agent import StubAgent

SSH_PORT, BOOT_S = 2422, 2.0
PLENTY = 1_000_000
DOORMAN_BYTES = re.compile(r"' anygpu (\d+) ")


class StubMachine:
    """The body of an instance: nothing of it is on a disk."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._gate = MachineNetwork()
        self._doors = Doors()
        self.host_key = self.console = ""

    async def boot(self) -> None:
        user_data = parse_user_data(self._instance.order.user_data)
        self._keys = {public_key(key) for key in (*self._instance.order.public_keys, *user_data.keys)}
        self._private, self.host_key = new_host_key(f"root@{self._instance.id}")
        self.console = host_key_block(self.host_key, self._instance.id)

    async def halt(self) -> None:
        self._gate.close()
        await self._doors.end()

    async def erase_disk(self) -> None:
        """There is no disk."""

    async def listen(self, address: str) -> None:
        server = AsyncsshServer(self._gate, self._private, lambda: self._keys, self._doors.serve)
        await server.listen(address, SSH_PORT)

    async def stop_listening(self, address: str) -> None:
        self._gate.stop_listening(address)

    def set_connected(self, connected: bool) -> None:
        self._gate.set_connected(connected)

    def limit_file_size(self, file_bytes: int | None) -> None:
        """There are no files."""


class Doors:
    """Answers the requests of agent/host (bootstrap.py, requests.py) without starting anything."""

    def __init__(self) -> None:
        self._has_archive = False
        self._agent: StubAgent | None = None
        self._running: asyncio.Task[None] | None = None

    async def serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, BrokenPipeError, ConnectionError):
            await process.stdin.readexactly(_doorman_bytes(process.command or ""))
            asked = json.loads(await process.stdin.readline())
            if not self._has_archive:
                _say(process, {"send_from": 0})
                await process.stdin.readexactly(asked["size"])
                self._has_archive = True
            _say(process, self._start(asked["request"]))
            await process.stdin.read()  # the conversation lasts as long as the connection
        process.exit(0)

    async def end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        port = int(request["tunnel"]["url"].rsplit(":", 1)[1])
        if self._agent is not None:
            self._agent.port = port
            return {"agent": "alive"}
        self._agent = StubAgent(request["ticket"]["ticket"], port)
        self._running = asyncio.create_task(self._agent.run())
        return {"agent": "started", "pid": 1}


def _doorman_bytes(command: str) -> int:
    found = DOORMAN_BYTES.search(command)
    if found is None:
        raise ValueError(f"a stub machine knows only how to let an agent in, not: {command[:200]}")
    return int(found[1])


def _say(process: "asyncssh.SSHServerProcess[bytes]", facts: dict[str, Any]) -> None:
    process.stdout.write(b"anygpu:" + json.dumps(facts).encode() + b"\n")


async def main() -> None:
    options = SimOptions(
        ssh_port=SSH_PORT, timing=CloudTiming(boot_s=BOOT_S), limits=CapacityLimits(vcpus={"ec2": PLENTY})
    )
    gc.set_threshold(100_000, 50, 100)  # what it measures is the server: this process shall not be in its way
    async with CloudSim(options, make_machine=StubMachine) as sim:
        print(json.dumps(_places(sim)), flush=True)
        orders = await _standard_input()
        while line := await orders.readline():
            _preempt(sim, int(line.removeprefix(b"preempt ")))


async def _standard_input() -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    loop.add_signal_handler(signal.SIGTERM, reader.feed_eof)
    return reader


def _preempt(sim: CloudSim, count: int) -> None:
    """Without notice, all in one moment."""
    spot = [each.id for each in sim.live_instances() if each.order.spot and each.booted_at_ms is not None]
    for id in random.sample(spot, count):
        sim.preempt(id, notice_s=0)


def _places(sim: CloudSim) -> dict[str, Any]:
    credentials = next(iter(sim.apis["ec2"].VENDOR.credentials.items()))
    return {
        "control": f"{sim.url('sim')}/v1",
        "ssh_port": SSH_PORT,
        "endpoints": {"ec2": sim.url("ec2")},
        "credentials": {"ec2": credentials},
    }


if __name__ == "__main__":
    uvloop.run(main())
