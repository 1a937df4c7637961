"""Commands and interactive shells started over SSH."""

import asyncio
import contextlib
import os
import pty
import resource
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from anygpu.cloudsim.machine.directory import MachineDirectory, shell
from anygpu.cloudsim.machine.processes import exit_code, find_processes, spawn

if TYPE_CHECKING:
    import asyncssh

KIB = 1024
# A session leader that opens a terminal gets it as its controlling terminal.
ON_TERMINAL = 'exec 0<>"$1" 1>&0 2>&0; shift; exec "$@"'
# Ignoring SIGXFSZ lets a write beyond the limit fail, as on a full disk, instead of killing the writer.
WITH_LIMIT = 'trap "" XFSZ; ulimit -S -f "$1"; shift; exec "$@"'


class SshSessions:
    """The commands and shells of a machine's SSH sessions."""

    def __init__(self, directory: MachineDirectory) -> None:
        self._directory = directory
        self.started = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.file_bytes: int | None = None

    async def serve(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        """Run the command or shell of one session until it ends."""
        self.track_task()
        env = {**self._directory.env(process.get_extra_info("username")), **_client_variables(process)}
        try:
            if process.term_type:
                code = await self._on_terminal(process, {**env, "TERM": process.term_type})
            else:
                code = await self._on_pipes(process, env)
            _send_exit(process, code)
        finally:
            await process.wait_closed()

    def track_task(self) -> None:
        """Register the current task, so that `wait_closed` waits for it."""
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def wait_closed(self, within_s: float) -> None:
        """Wait, at most `within_s` seconds, until all sessions have ended.

        The caller must close the connections of the sessions first.
        """
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)

    def start(self, argv: list[str], env: dict[str, str], **streams: Any) -> "subprocess.Popen[bytes]":
        self.started += 1
        if self.file_bytes is not None:
            argv = [shell(), "-c", WITH_LIMIT, "sh", str(self.file_bytes // KIB), *argv]
        return spawn(argv, env=env, cwd=self._directory.home, **streams)

    def limit_file_size(self, file_bytes: int | None) -> None:
        """Limit the size of each file of running and future processes. None removes the limit."""
        self.file_bytes = file_bytes
        self._directory.path.mkdir(parents=True, exist_ok=True)
        self._directory.file_size_limit.write_text("" if file_bytes is None else str(file_bytes // KIB))
        soft = resource.RLIM_INFINITY if file_bytes is None else file_bytes
        for pid in find_processes([self._directory.path]).get(self._directory.path, []):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))

    async def _on_pipes(self, process: "asyncssh.SSHServerProcess[bytes]", env: dict[str, str]) -> int:
        pipe = subprocess.PIPE
        child = self.start(_argv(process.command), env, stdin=pipe, stdout=pipe, stderr=pipe)
        ended = asyncio.create_task(exit_code(child))
        # With `send_eof`, the end of one of the two outputs would end the other too.
        await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr, send_eof=False)
        code = await ended
        await process.stdout.drain()
        await process.stderr.drain()
        return code

    async def _on_terminal(self, process: "asyncssh.SSHServerProcess[bytes]", env: dict[str, str]) -> int:
        ours, theirs = pty.openpty()
        argv = ["/bin/sh", "-c", ON_TERMINAL, "sh", os.ttyname(theirs), *_argv(process.command)]
        child = self.start(argv, env)
        ended = asyncio.create_task(exit_code(child))
        terminal = os.fdopen(ours, "r+b", buffering=0)
        await process.redirect(
            stdin=os.fdopen(os.dup(ours), "wb", buffering=0), stdout=terminal, send_eof=False
        )
        code = await ended
        os.close(theirs)  # the output ends when the last process closes the terminal
        await process.stdout.drain()
        return code


def _send_exit(process: "asyncssh.SSHServerProcess[bytes]", code: int) -> None:
    if code < 0:
        process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
    else:
        process.exit(code)


def _argv(command: str | None) -> list[str]:
    return [shell(), "-l"] if command is None else [shell(), "-c", command]


def _client_variables(process: "asyncssh.SSHServerProcess[bytes]") -> dict[str, str]:
    """Return the environment variables that the client may set, as in OpenSSH's default configuration."""
    return {name: value for name, value in process.env.items() if name == "LANG" or name.startswith("LC_")}
