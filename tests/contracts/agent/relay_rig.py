"""Answers the mailbox of an agent with the answers of its fake server, as a real server does with its agent API."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.contracts.agent.agent_process import Agent

from anygpu.backends.relay.directory import DirectoryRelay
from anygpu.server.relay.messages import MessageBody, RelayAnswer, RelayRequest
from anygpu.server.relay.pump import RelayPump

POLL_S = 0.05


class MailboxServer:
    """A relay between one agent and its fake server, in a thread. It can be stopped and started again."""

    def __init__(self, agent: Agent, root: Path) -> None:
        self.agent = agent
        self.relay = DirectoryRelay(root, poll_s=POLL_S)
        self.mailbox = root / agent.server.name
        [self.ticket] = asyncio.run(self.relay.open(agent.server.name))
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(64)  # of its own: a stopped relay does not wait for its long polls

    def write_ticket(self, **fields: Any) -> None:
        ticket = {name: value for name, value in self.agent.server.ticket().items() if name != "url"}
        path = self.agent.directory / "ticket.json"
        path.write_text(json.dumps({**ticket, "relay": self.ticket, **fields}))

    def start(self) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(self._stopping)), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    async def _serve(self, stopping: threading.Event) -> None:
        pump = RelayPump(self.relay, self._handle, lambda text, error: None)
        while not stopping.is_set():
            await pump.poll({self.agent.server.name: 1})
            await asyncio.sleep(POLL_S)
        await pump.close()

    @asynccontextmanager
    async def _handle(self, request: RelayRequest, body: MessageBody) -> AsyncIterator[RelayAnswer]:
        content = b"".join([piece async for piece in body])
        loop = asyncio.get_running_loop()
        status, answer = await loop.run_in_executor(self._threads, self._ask, request, content)
        yield RelayAnswer(status=status, headers={}, size=len(answer), body=_one_piece(answer))

    def _ask(self, request: RelayRequest, content: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.agent.server.port, timeout=60)
        try:
            connection.request(request.method, request.path, content, dict(request.headers))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


async def _one_piece(content: bytes) -> AsyncIterator[bytes]:
    yield content
