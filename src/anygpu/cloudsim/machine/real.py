"""A machine with real processes, a home directory, an SSH server and a metadata address."""

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from anygpu.cloudsim.clock import SimClock
from anygpu.cloudsim.instance import Instance
from anygpu.cloudsim.machine.directory import MachineDirectory, MachineHost, instance_variables
from anygpu.cloudsim.machine.network import MachineNetwork
from anygpu.cloudsim.machine.processes import ProcessReaper, exit_code
from anygpu.cloudsim.machine.sessions import SshSessions
from anygpu.cloudsim.machine.user_data import parse_user_data

if TYPE_CHECKING:
    from anygpu.cloudsim.machine.openssh import OpenSshServer
    from anygpu.cloudsim.machine.ssh_server import AsyncsshServer

RULE = "#" * 61


def kernel_lines(now_ms: int) -> str:
    at = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    return f"[    0.000000] Linux version (anygpu simulated machine)\r\nCloud-init: running 'modules:final' at {at}\r\n"


def host_key_block(public_key: str, host: str) -> str:
    """Return the console text that shows the host key, as cloud-init's `write-ssh-key-fingerprints` prints it."""
    kind, body, *_ = public_key.split()
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(body)).digest()).decode().rstrip("=")
    name = kind.removeprefix("ssh-").upper()
    lines = [
        f"ec2: {RULE}",
        "ec2: -----BEGIN SSH HOST KEY FINGERPRINTS-----",
        f"ec2: 256 SHA256:{digest} root@{host} ({name})",
        "ec2: -----END SSH HOST KEY FINGERPRINTS-----",
        f"ec2: {RULE}",
        "-----BEGIN SSH HOST KEY KEYS-----",
        public_key,
        "-----END SSH HOST KEY KEYS-----",
    ]
    return "".join(f"{connection}\r\n" for connection in lines)


CONSOLE_BYTES = 64 * 1024  # the same limit as in EC2


class RealMachine:
    """A machine whose processes, files and SSH server are real."""

    def __init__(
        self,
        instance: Instance,
        host: MachineHost,
        reaper: ProcessReaper,
        clock: SimClock,
        open_metadata: Callable[[Instance], Awaitable[None]],
        close_metadata: Callable[[str], None],
        openssh: str = "",
    ) -> None:
        self._instance = instance
        self._directory = MachineDirectory(
            host.directory / "machines" / instance.id, instance_variables(host, instance)
        )
        self._ssh_port = host.ssh_port
        self._reaper = reaper
        self._clock = clock
        self._open_metadata = open_metadata
        self._close_metadata = close_metadata
        self._openssh = openssh
        self._network = MachineNetwork()
        self._sessions = SshSessions(self._directory)
        self._background: set[asyncio.Task[None]] = set()
        self._up = False
        self.host_key = ""
        self._boot_text = ""

    @property
    def console(self) -> str:
        with contextlib.suppress(OSError):
            return (self._boot_text + self._directory.log.read_text("utf-8", "replace"))[-CONSOLE_BYTES:]
        return self._boot_text

    async def boot(self) -> None:
        user_data = parse_user_data(self._instance.order.user_data)
        self._directory.create((*self._instance.order.public_keys, *user_data.keys))
        self._server = self._make_server()
        self._boot_text = kernel_lines(self._clock.now_ms()) + host_key_block(
            self.host_key, self._instance.id
        )
        await self._open_metadata(self._instance)
        self._up = True
        if user_data.scripts:
            task = asyncio.create_task(
                self._run_scripts(user_data.scripts), name=f"cloud-init-{self._instance.id}"
            )
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def halt(self) -> None:
        self._up = False
        self._network.close()
        self._close_metadata(self._instance.internal_ip)
        if self._sessions.started:
            await self._reaper.kill(self._directory.path)
        await asyncio.gather(*self._background)  # wait for the killed scripts
        await asyncio.to_thread(shutil.rmtree, self._directory.path / "tmp", ignore_errors=True)

    async def erase_disk(self) -> None:
        self._boot_text = self.console
        await asyncio.to_thread(shutil.rmtree, self._directory.path, ignore_errors=True)

    async def listen(self, address: str) -> None:
        if self._up:
            await self._server.listen(address, self._ssh_port)

    async def stop_listening(self, address: str) -> None:
        self._network.stop_listening(address)

    def set_connected(self, connected: bool) -> None:
        self._network.set_connected(connected)

    def limit_file_size(self, file_bytes: int | None) -> None:
        self._sessions.limit_file_size(file_bytes)

    def _make_server(self) -> "AsyncsshServer | OpenSshServer":
        from anygpu.cloudsim.machine.ssh_server import new_host_key

        private, self.host_key = new_host_key(f"root@{self._instance.id}")
        if self._openssh:
            from anygpu.cloudsim.machine.openssh import OpenSshServer

            return OpenSshServer(self._openssh, self._directory, self._network, self._sessions, private)
        from anygpu.cloudsim.machine.ssh_server import AsyncsshServer, MachineFiles

        return AsyncsshServer(
            self._network,
            private,
            self._directory.read_authorized_keys,
            self._sessions.serve,
            lambda channel: MachineFiles(channel, self._directory, self._sessions),
        )

    async def _run_scripts(self, scripts: tuple[str, ...]) -> None:
        """Run the boot scripts one after the other. After a script that fails, the next one still runs."""
        for number, script in enumerate(scripts):
            if not self._up:
                return
            path = self._directory.path / f"part-{number:03}"
            path.write_text(script)
            path.chmod(0o700)
            with self._directory.log.open("ab") as log:
                child = self._sessions.start(
                    [str(path)], self._directory.env(), stdout=log, stderr=subprocess.STDOUT
                )
            await exit_code(child)
