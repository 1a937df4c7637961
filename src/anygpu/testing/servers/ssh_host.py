"""Hosts with a real SSH server and their own home directory, for tests. No root is needed.

`AsyncsshTestHost` uses an asyncssh server in this process; `OpenSshTestHost` uses `sshd` where it is installed.
"""

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh

from anygpu.backends.ssh.keys import KeyPair, attempt_key
from anygpu.backends.ssh.login import Login

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SSH_SERVERS = ("asyncssh", "openssh") if SSHD else ("asyncssh",)


class SshTestHost(ABC):
    """A host with an SSH server. `path` is the PATH of its commands."""

    def __init__(self, home: Path, *, path: Sequence[str] = ()) -> None:
        self.home = home
        self.user = "someone"
        self.key: KeyPair = attempt_key(b"a person's own", "person")
        self.host_key: KeyPair = attempt_key(b"a box's own", str(home))
        self.port = 0
        own = str(Path(sys.executable).parent)
        self.env = {"HOME": str(home), "PATH": ":".join(path or (own, "/usr/local/bin", "/usr/bin", "/bin"))}
        self.env["ANYGPU_GPU_LOCKS"] = str(home / "gpu-locks")
        self.forwarding = True
        home.mkdir(parents=True, exist_ok=True)

    def login(self, **instead: Any) -> Login:
        given = {
            "machine": "box",
            "host": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "private_key": self.key.private_openssh,
        }
        return Login(**{**given, **instead})

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...


class AsyncsshTestHost(SshTestHost):
    """A host with an asyncssh server. Each command is a process that may outlive its connection."""

    _server: asyncssh.SSHAcceptor

    def __init__(self, home: Path, **how: Any) -> None:
        super().__init__(home, **how)
        self._commands: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncssh.create_server(
            lambda: _Door(self),
            "127.0.0.1",
            self.port,
            server_host_keys=[asyncssh.import_private_key(self.host_key.private_openssh)],
            process_factory=self._command,
            encoding=None,
        )
        self.port = self._server.get_port()

    async def close(self) -> None:
        self._server.close()
        await self._server.wait_closed()
        if self._commands:
            await asyncio.wait(self._commands, timeout=5)

    async def _command(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        task = asyncio.create_task(self._run(process))
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)
        await asyncio.wait([task])

    async def _run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        child = await asyncio.create_subprocess_shell(
            process.command or "true",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self.env,
            cwd=self.home,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        feed = asyncio.create_task(_feed(process, child.stdin))
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await child.stdout.read(1 << 16):
                process.stdout.write(data)
                await process.stdout.drain()
        feed.cancel()
        child.stdin.close()
        code = await child.wait()
        with contextlib.suppress(OSError, asyncssh.Error):
            process.exit(code)


async def _feed(process: "asyncssh.SSHServerProcess[bytes]", stdin: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await process.stdin.read(1 << 16):
            stdin.write(data)
            await stdin.drain()
    stdin.close()


class _Door(asyncssh.SSHServer):
    def __init__(self, box: SshTestHost) -> None:
        self._box = box

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        known = asyncssh.import_public_key(self._box.key.public_openssh)
        return username == self._box.user and key == known

    def server_requested(self, listen_host: str, listen_port: int) -> bool:
        return self._box.forwarding


class OpenSshTestHost(SshTestHost):
    """A host with OpenSSH's `sshd`, run as the current user with its own configuration."""

    _sshd: "subprocess.Popen[bytes]"

    async def open(self) -> None:
        folder = self.home.with_name(f"{self.home.name}-sshd")
        folder.mkdir(exist_ok=True)
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.port = self.port or free_port()
        self._sshd = await asyncio.to_thread(self._start, folder)
        await _until_open(self.port)

    def _start(self, folder: Path) -> "subprocess.Popen[bytes]":
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd does not start as root without it
        (folder / "keys").write_text(self.key.public_openssh + "\n")
        (folder / "host").write_text(self.host_key.private_openssh)
        (folder / "host").chmod(0o600)
        (folder / "config").write_text(self._config(folder))
        with (folder / "log").open("ab") as log:
            return subprocess.Popen([str(SSHD), "-D", "-e", "-f", folder / "config"], stdout=log, stderr=log)

    def _config(self, folder: Path) -> str:
        env = " ".join(f'"{name}={value}"' for name, value in self.env.items())
        return "\n".join(
            (
                f"ListenAddress 127.0.0.1:{self.port}",
                f"HostKey {folder}/host",
                f"AuthorizedKeysFile {folder}/keys",
                f"AllowTcpForwarding {'yes' if self.forwarding else 'no'}",
                "PidFile none",
                "StrictModes no",
                "UsePAM no",
                "PasswordAuthentication no",
                "PermitRootLogin yes",
                f"SetEnv {env}",
                "",
            )
        )

    async def close(self) -> None:
        self._sshd.terminate()
        await asyncio.to_thread(self._sshd.wait)
        with contextlib.suppress(ProcessLookupError):
            for pid in _children(self._sshd.pid):
                os.kill(pid, 15)


@asynccontextmanager
async def open_ssh_host(kind: str, home: Path, **how: Any) -> AsyncIterator[SshTestHost]:
    box = {"asyncssh": AsyncsshTestHost, "openssh": OpenSshTestHost}[kind](home, **how)
    await box.open()
    try:
        yield box
    finally:
        await box.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as match:
        port: int = match.getsockname()[1]
        return port


async def _until_open(port: int, within_s: float = 10) -> None:
    async with asyncio.timeout(within_s):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)


def _children(pid: int) -> list[int]:
    if sys.platform != "linux":
        return []
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
