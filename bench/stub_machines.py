"""A simulated cloud of machines without processes: real addresses and SSH servers, agents that are coroutines.

`python -m bench.stub_machines` prints where it is, obeys its standard input (`preempt 300`), and ends with that.
"""

import asyncio
import contextlib
import json
import random
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anygpu.testing.cloud import CloudSim, SimOptions, Timing, userdata
from anygpu.testing.cloud.cloud import Limits
from anygpu.testing.cloud.console import host_key_block
from anygpu.testing.cloud.gate import Gate
from anygpu.testing.cloud.hostkey import new_host_key
from anygpu.testing.cloud.instance import Instance
from anygpu.testing.cloud.place import Place, Site
from anygpu.testing.cloud.sessions import Sessions
from anygpu.testing.cloud.sshserver import SshServer
from bench.stub_agent import StubAgent

if TYPE_CHECKING:
    import asyncssh

SSH_PORT, BOOT_S = 2422, 2.0
PLENTY = 1_000_000
DOORMAN_BYTES = re.compile(r"' anygpu (\d+) ")


class StubMachine:
    """The body of an instance. One agent at most, as on a real one."""

    def __init__(self, instance: Instance, site: Site) -> None:
        self._instance = instance
        self._place = Place(site, instance)
        self._gate = Gate()
        self._doors = Doors(self._place)
        self.host_key = self.console = ""

    async def boot(self) -> None:
        start = userdata.read(self._instance.order.user_data)
        self._place.make((*self._instance.order.public_keys, *start.keys))
        private, self.host_key = new_host_key(f"root@{self._instance.id}")
        self.console = host_key_block(self.host_key, self._instance.id)
        self._server = SshServer(self._place, self._gate, self._doors, private)

    async def halt(self) -> None:
        self._gate.close()
        await self._doors.end()

    async def erase(self) -> None:
        shutil.rmtree(self._place.directory, ignore_errors=True)

    async def listen(self, address: str) -> None:
        await self._server.listen(address, self._place.site.ssh_port)

    async def silence(self, address: str) -> None:
        self._gate.shut(address)

    def cut(self, connected: bool) -> None:
        self._gate.connect(connected)

    def limit_files(self, file_bytes: int | None) -> None:
        self._doors.limit_files(file_bytes)


class Doors(Sessions):
    """Answers what a server asks of a new machine (agent/box_door.py, agent/box.py), without starting anything."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
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
    with tempfile.TemporaryDirectory() as directory:
        site = Site(directory=Path(directory), ssh_port=SSH_PORT, metadata_port=0, env={})
        options = SimOptions(
            ssh_port=SSH_PORT,
            timing=Timing(boot_s=BOOT_S),
            limits=Limits(vcpus={"ec2": PLENTY}),
            directory=Path(directory),
        )
        async with CloudSim(options, make_body=lambda instance: StubMachine(instance, site)) as sim:
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
    spot = [each.id for each in sim.alive() if each.order.spot and each.booted_at_ms is not None]
    for id in random.sample(spot, count):
        sim.preempt(id, notice_s=0)


def _places(sim: CloudSim) -> dict[str, Any]:
    credentials = next(iter(sim.dialects["ec2"].VENDOR.credentials.items()))
    return {
        "control": f"{sim.url('sim')}/v1",
        "ssh_port": SSH_PORT,
        "endpoints": {"ec2": sim.url("ec2")},
        "credentials": {"ec2": credentials},
    }


if __name__ == "__main__":
    asyncio.run(main())
