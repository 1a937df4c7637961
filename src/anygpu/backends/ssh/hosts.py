"""One SSH host of the user: keep a connection to it open, run requests on it, and check its status."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anygpu.backends.ssh.bootstrap import run_request
from anygpu.backends.ssh.connection import SshConnector, SshLogin, disconnect
from anygpu.backends.ssh.errors import SshUnreachable
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.errors import AnygpuError

if TYPE_CHECKING:
    import asyncssh

STATUS_MAX_AGE_S = 5.0  # how old a status may be for scheduling
CHECK_WAIT_S = 3.0  # how long one host may delay the offers of the others


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host's answer to a status check, and the time of the request (monotonic clock)."""

    requested_at: float
    facts: dict[str, Any]

    @property
    def attempt_names(self) -> list[str]:
        names: list[str] = self.facts["names"]
        return names


class SshHost:
    """A host and its last status.

    `problem` says why the host does not answer; it is empty if the host answers.
    """

    def __init__(
        self, login: SshLogin, connector: SshConnector, *, owner: str, cpu_count: int = 0, python: str = ""
    ) -> None:
        self.login = login
        self.name = login.machine
        self.python = python
        self.cpu_count = cpu_count
        self.last_status: HostStatus | None = None
        self.problem = ""
        self._connector = connector
        self._owner = owner
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connect_lock = asyncio.Lock()
        self._check_task: asyncio.Task[HostStatus] | None = None
        self._check_started_at = self._failed_at = float("-inf")

    async def request(self, request: dict[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """Run a request on the host and return the answer. Raise one of the errors in `ssh.errors`."""
        import asyncssh

        full_request = {**request, "owner": self._owner, "cpu_count": self.cpu_count}
        limit_s = timeout_s or self._connector.timing.command_s
        try:
            connection = await self._get_connection()
            return await run_request(
                connection, full_request, machine=self.name, python=self.python, timeout_s=limit_s
            )
        except (OSError, TimeoutError, asyncssh.Error) as error:
            self._drop_connection()
            text = str(error) or type(error).__name__
            raise SshUnreachable(
                f"The host {self.name} did not answer the request {request['do']!r}: {text}. Check that it is on, "
                "and its network."
            ) from error

    async def check(self, newer_than: float = float("-inf")) -> HostStatus:
        """Return a status that was requested after `newer_than` (monotonic clock).

        Callers at the same time share one request to the host.
        """
        if self.last_status is not None and self.last_status.requested_at > newer_than and not self.problem:
            return self.last_status
        if (
            self._check_task is not None
            and not self._check_task.done()
            and self._check_started_at <= newer_than
        ):
            await asyncio.wait([self._check_task])
        return await asyncio.shield(self._start_check())

    def outdate_status(self) -> None:
        """Ask the host again before its next offer, because an attempt has started or ended there."""
        if self.last_status is not None:
            self.last_status = HostStatus(float("-inf"), self.last_status.facts)

    async def recent_status(self) -> HostStatus | None:
        """Return the last status of the host, for scheduling; None if there is none yet.

        If the status is too old, ask the host again and wait briefly for the answer. Do not wait for a host
        that did not answer the last time.
        """
        now = time.monotonic()
        if (
            self.last_status is not None
            and not self.problem
            and now - self.last_status.requested_at < STATUS_MAX_AGE_S
        ):
            return self.last_status
        if now - self._failed_at > STATUS_MAX_AGE_S or self._is_checking():
            looking = self._start_check()
            await asyncio.wait([looking], timeout=0 if self.problem else CHECK_WAIT_S)
            if not looking.done() and not self.problem:
                self.problem = f"the host {self.name} has not answered for {CHECK_WAIT_S:g} s"
        return self.last_status

    async def close(self) -> None:
        if self._check_task is not None:
            self._check_task.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await disconnect(connection)

    def _is_checking(self) -> bool:
        return self._check_task is not None and not self._check_task.done()

    def _start_check(self) -> "asyncio.Task[HostStatus]":
        if self._check_task is None or self._check_task.done():
            self._check_started_at = time.monotonic()
            self._check_task = asyncio.create_task(self._run_check(self._check_started_at))
            self._check_task.add_done_callback(_retrieve_exception)
        return self._check_task

    async def _run_check(self, began_at: float) -> HostStatus:
        try:
            facts = await self.request({"do": "check"}, timeout_s=60)
        except AnygpuError as error:
            self.problem, self._failed_at = str(error), time.monotonic()
            raise
        self.last_status, self.problem = HostStatus(began_at, facts), ""
        return self.last_status

    async def _get_connection(self) -> "asyncssh.SSHClientConnection":
        async with self._connect_lock:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connector.connect(self.login)
            return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


def _retrieve_exception(task: "asyncio.Task[HostStatus]") -> None:
    """Mark the task's exception as retrieved, so that asyncio does not warn about it.

    `SshHost.problem` has the text of the error.
    """
    if not task.cancelled():
        task.exception()


async def request_once(login: SshLogin, request: dict[str, Any], *, python: str = "") -> dict[str, Any]:
    """Connect, run one request, disconnect, and return the answer. The login must contain the host key."""
    connector = SshConnector(HostKeyStore(Path(os.devnull)))
    host = SshHost(login, connector, owner="", python=python)
    try:
        return await host.request(request)
    finally:
        await host.close()
