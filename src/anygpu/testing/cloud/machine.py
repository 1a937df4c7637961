"""A machine that really runs: a home directory, processes, an SSH server, a metadata address."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from anygpu.testing.cloud import userdata
from anygpu.testing.cloud.clock import SimClock
from anygpu.testing.cloud.console import host_key_block, kernel_lines
from anygpu.testing.cloud.gate import Gate
from anygpu.testing.cloud.instance import Instance
from anygpu.testing.cloud.place import Place, Site
from anygpu.testing.cloud.processes import Reaper, exit_code
from anygpu.testing.cloud.sessions import Sessions

if TYPE_CHECKING:
    from anygpu.testing.cloud.openssh import OpenSshServer
    from anygpu.testing.cloud.sshserver import SshServer

CONSOLE_BYTES = 64 * 1024  # as much as EC2 keeps


class RealMachine:
    """The body of an instance. `metadata` opens and shuts its metadata address."""

    def __init__(
        self,
        instance: Instance,
        site: Site,
        reaper: Reaper,
        clock: SimClock,
        open_metadata: Callable[[Instance], Awaitable[None]],
        shut_metadata: Callable[[str], None],
        openssh: str = "",
    ) -> None:
        self._instance = instance
        self._place = Place(site, instance)
        self._reaper = reaper
        self._clock = clock
        self._open_metadata = open_metadata
        self._shut_metadata = shut_metadata
        self._openssh = openssh
        self._gate = Gate()
        self._sessions = Sessions(self._place)
        self._background: set[asyncio.Task[None]] = set()
        self._up = False
        self.host_key = ""
        self._boot_text = ""

    @property
    def console(self) -> str:
        with contextlib.suppress(OSError):
            return (self._boot_text + self._place.log.read_text("utf-8", "replace"))[-CONSOLE_BYTES:]
        return self._boot_text

    async def boot(self) -> None:
        start = userdata.read(self._instance.order.user_data)
        self._place.make((*self._instance.order.public_keys, *start.keys))
        self._server = self._make_server()
        self._boot_text = kernel_lines(self._clock.now_ms()) + host_key_block(
            self.host_key, self._instance.id
        )
        await self._open_metadata(self._instance)
        self._up = True
        if start.scripts:
            task = asyncio.create_task(self._run(start.scripts), name=f"cloud-init-{self._instance.id}")
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def halt(self) -> None:
        self._up = False
        self._gate.close()
        self._shut_metadata(self._instance.inside_ip)
        if self._sessions.started:
            await self._reaper.kill(self._place.directory)
        await asyncio.gather(*self._background)  # scripts that were killed are waited for
        await asyncio.to_thread(shutil.rmtree, self._place.directory / "tmp", ignore_errors=True)

    async def erase(self) -> None:
        self._boot_text = self.console
        await asyncio.to_thread(shutil.rmtree, self._place.directory, ignore_errors=True)

    async def listen(self, address: str) -> None:
        if self._up:
            await self._server.listen(address, self._place.site.ssh_port)

    async def silence(self, address: str) -> None:
        self._gate.shut(address)

    def cut(self, connected: bool) -> None:
        self._gate.connect(connected)

    def limit_files(self, file_bytes: int | None) -> None:
        self._sessions.limit_files(file_bytes)

    def _make_server(self) -> "SshServer | OpenSshServer":
        from anygpu.testing.cloud.hostkey import new_host_key

        private, self.host_key = new_host_key(f"root@{self._instance.id}")
        if self._openssh:
            from anygpu.testing.cloud.openssh import OpenSshServer

            return OpenSshServer(self._openssh, self._place, self._gate, self._sessions, private)
        from anygpu.testing.cloud.sshserver import SshServer

        return SshServer(self._place, self._gate, self._sessions, private)

    async def _run(self, scripts: tuple[str, ...]) -> None:
        """One after the other; one that fails does not keep the next from running."""
        for number, script in enumerate(scripts):
            if not self._up:
                return
            path = self._place.directory / f"part-{number:03}"
            path.write_text(script)
            path.chmod(0o700)
            with self._place.log.open("ab") as log:
                child = self._sessions.start(
                    [str(path)], self._place.env(), stdout=log, stderr=subprocess.STDOUT
                )
            await exit_code(child)
