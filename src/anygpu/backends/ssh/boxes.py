"""A box of one's own: asked over one kept connection, looked at once for everybody who wants to know."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anygpu.backends.ssh.connection import Dialer, hang_up
from anygpu.backends.ssh.door import ask
from anygpu.backends.ssh.errors import SshUnreachable
from anygpu.backends.ssh.login import Login
from anygpu.backends.ssh.pins import Pins
from anygpu.errors import AnygpuError

if TYPE_CHECKING:
    import asyncssh

FRESH_S = 5.0  # how long an answer is good enough for placing
WAIT_S = 3.0  # how long one box may hold up the others


@dataclass(frozen=True, slots=True)
class Look:
    """What a box said of itself, and when it was asked (monotonic)."""

    asked_at: float
    facts: dict[str, Any]

    @property
    def names(self) -> list[str]:
        found: list[str] = self.facts["names"]
        return found


class Box:
    """One machine. What it said last stays known while it does not answer, with the `trouble` it has."""

    def __init__(
        self, login: Login, dialer: Dialer, *, owner: str, cpu_count: int = 0, python: str = ""
    ) -> None:
        self.login = login
        self.name = login.machine
        self.python = python
        self.cpu_count = cpu_count
        self.last: Look | None = None
        self.trouble = ""
        self._dialer = dialer
        self._owner = owner
        self._connection: asyncssh.SSHClientConnection | None = None
        self._dialling = asyncio.Lock()
        self._looking: asyncio.Task[Look] | None = None
        self._began_at = self._failed_at = float("-inf")

    async def ask(self, request: dict[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """One answer, or SshUnreachable and its kin."""
        import asyncssh

        asked = {**request, "owner": self._owner, "cpu_count": self.cpu_count}
        limit_s = timeout_s or self._dialer.timing.command_s
        try:
            connection = await self._connected()
            return await ask(connection, asked, machine=self.name, python=self.python, timeout_s=limit_s)
        except (OSError, TimeoutError, asyncssh.Error) as error:
            self._hang_up()
            words = str(error) or type(error).__name__
            raise SshUnreachable(f"{self.name} did not answer {request['do']!r}: {words}") from error

    async def look(self, newer_than: float = float("-inf")) -> Look:
        """An answer that was asked for after `newer_than`; many who ask at once share one."""
        if self.last is not None and self.last.asked_at > newer_than and not self.trouble:
            return self.last
        if self._looking is not None and not self._looking.done() and self._began_at <= newer_than:
            await asyncio.wait([self._looking])
        return await asyncio.shield(self._look_now())

    async def known(self) -> Look | None:
        """For placing: what is known without waiting long. A box in trouble is waited for by nobody."""
        now = time.monotonic()
        if self.last is not None and not self.trouble and now - self.last.asked_at < FRESH_S:
            return self.last
        if now - self._failed_at > FRESH_S or self._is_looking():
            looking = self._look_now()
            await asyncio.wait([looking], timeout=0 if self.trouble else WAIT_S)
            if not looking.done() and not self.trouble:
                self.trouble = f"{self.name} has not answered for {WAIT_S:g} s"
        return self.last

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await hang_up(connection)

    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    def _look_now(self) -> "asyncio.Task[Look]":
        if self._looking is None or self._looking.done():
            self._began_at = time.monotonic()
            self._looking = asyncio.create_task(self._look(self._began_at))
            self._looking.add_done_callback(_noticed)
        return self._looking

    async def _look(self, began_at: float) -> Look:
        try:
            facts = await self.ask({"do": "check"}, timeout_s=60)
        except AnygpuError as error:
            self.trouble, self._failed_at = str(error), time.monotonic()
            raise
        self.last, self.trouble = Look(began_at, facts), ""
        return self.last

    async def _connected(self) -> "asyncssh.SSHClientConnection":
        async with self._dialling:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._dialer.dial(self.login)
            return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


def _noticed(task: "asyncio.Task[Look]") -> None:
    """A failed look is kept as `trouble`; nobody else need have waited for it."""
    if not task.cancelled():
        task.exception()


async def asked_once(login: Login, request: dict[str, Any], *, python: str = "") -> dict[str, Any]:
    """For a command that looks at one box and leaves. Its host key must be known."""
    dialer = Dialer(Pins(Path(os.devnull)))
    box = Box(login, dialer, owner="", python=python)
    try:
        return await box.ask(request)
    finally:
        await box.close()
