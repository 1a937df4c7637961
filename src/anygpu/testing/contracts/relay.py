"""Tests that every relay must pass, with the agent's side of it. Tests of a relay provide the fixture `relay`."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.mailbox import channel_names, encode_head
from anygpu.agent.link.relay import EXTRA_WAIT_S, RelayAddress, make_mailbox
from anygpu.backends.relay.contract import RelayTicket, RelayTransport
from anygpu.server.relay.messages import MessageBody, RelayAnswer, RelayRequest
from anygpu.server.relay.pump import RelayPump

NAME = "anygpu-0198f0a1b2c37d4e8f00112233445566-1"
OTHER = "anygpu-0198f0a1b2c37d4e8f00112233445566-2"
POLL_S = 0.02
WAIT_S = 60.0
DOWNLOAD_PATH, DOWNLOAD_BYTES = "/download", 2_000_000


class EchoServer:
    """Answers each request with its path and its body, or with a large body, and remembers the paths."""

    abandon_after_s = EXTRA_WAIT_S

    def __init__(self, transport: RelayTransport) -> None:
        self.paths: list[str] = []
        self.failures: list[str] = []
        self._transport = transport

    @asynccontextmanager
    async def running(self, *mailboxes: str) -> AsyncIterator["EchoServer"]:
        """Context manager in which the mailboxes are answered, as a server process does it."""
        pump = RelayPump(
            self._transport,
            self._handle,
            lambda text, error: self.failures.append(text),
            abandon_after_s=self.abandon_after_s,
        )
        task = asyncio.create_task(self._poll(pump, mailboxes))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await pump.close()

    async def _poll(self, pump: RelayPump, mailboxes: tuple[str, ...]) -> None:
        while True:
            await pump.poll(dict.fromkeys(mailboxes, 1))
            await asyncio.sleep(POLL_S)

    @asynccontextmanager
    async def _handle(self, request: RelayRequest, body: MessageBody) -> AsyncIterator[RelayAnswer]:
        self.paths.append(request.path)
        if "wait_s" in request.path:
            await asyncio.Event().wait()
        content = request.path.encode() + b" " + b"".join([piece async for piece in body])
        if request.path == DOWNLOAD_PATH:
            content = b"x" * DOWNLOAD_BYTES
        yield RelayAnswer(status=200, headers={}, size=len(content), body=_in_pieces(content))


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


class RelayAgent:
    """The agent's side of a mailbox, as the agent itself uses it."""

    def __init__(self, ticket: RelayTicket) -> None:
        self.renewed: list[dict[str, Any]] = []
        self.address = RelayAddress({**ticket, "poll_s": POLL_S}, 0, self.renewed.append)

    def send(self, path: str, body: bytes = b"", timeout_s: float = WAIT_S) -> bytes:
        connection = self.address.connect()
        try:
            return connection.request("POST", path, {}, body, timeout_s).body()
        finally:
            connection.close()

    async def ask(self, path: str, body: bytes = b"", timeout_s: float = WAIT_S) -> bytes:
        return await asyncio.to_thread(self.send, path, body, timeout_s)


class RelayContract:
    """Tests of the methods of `RelayTransport`, mostly through the agent's side."""

    async def test_a_request_gets_its_answer(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        async with EchoServer(relay).running(NAME):
            assert await RelayAgent(ticket).ask("/a?b=c", b"hello") == b"/a?b=c hello"

    async def test_threads_get_their_own_answers(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        agent = RelayAgent(ticket)
        answers: list[tuple[str, bytes]] = []

        def talk(name: str) -> None:
            for number in range(4):
                path = f"/{name}/{number}"
                answers.append((path, agent.send(path)))

        async with EchoServer(relay).running(NAME) as server:
            threads = [threading.Thread(target=talk, args=(str(name),)) for name in range(7)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join)
        assert all(answer == f"{path} ".encode() for path, answer in answers)
        assert len(answers) == 28
        assert sorted(server.paths) == sorted(path for path, _ in answers), "each was handled once"

    async def test_large_messages_pass(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        body = bytes(range(256)) * 12_000
        async with EchoServer(relay).running(NAME):
            agent = RelayAgent(ticket)
            assert await agent.ask("/large", body) == b"/large " + body
            assert await agent.ask("/small") == b"/small "

    async def test_a_request_waits_for_the_server(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        asked = asyncio.create_task(RelayAgent(ticket).ask("/early"))
        await _until_written(relay, NAME)
        async with EchoServer(relay).running(NAME):
            assert await asked == b"/early "

    async def test_a_server_that_starts_again_answers_only_what_has_no_answer(
        self, relay: RelayTransport
    ) -> None:
        [ticket] = await relay.open(NAME)
        agent = RelayAgent(ticket)
        async with EchoServer(relay).running(NAME):
            await agent.ask("/first")
        async with EchoServer(relay).running(NAME) as second:
            await asyncio.sleep(10 * POLL_S)
            assert await agent.ask("/second") == b"/second "
        assert second.paths == ["/second"]

    async def test_opening_again_keeps_the_messages(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        asked = asyncio.create_task(RelayAgent(ticket).ask("/kept"))
        await _until_written(relay, NAME)
        await relay.open(NAME)
        async with EchoServer(relay).running(NAME):
            assert await asked == b"/kept "

    async def test_garbage_is_ignored_and_the_next_request_is_answered(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        mailbox, channel = make_mailbox(ticket), channel_names()[0]
        head = {"id": "x", "method": "POST", "path": "/agent/v1/end", "headers": {}, "size": 10}
        rubbish = [
            (b"\x00\xff" * 40_000, b""),
            (b"[" * 50_000, b""),
            (b"{}\n", b""),
            (encode_head({**head, "size": -1}), b""),
            (encode_head(head), b"too short"),
            (encode_head({**head, "headers": {"Authorization": "Bearer \r\nx: y\u1234"}}), b"0123456789"),
            (encode_head({**head, "path": "no slash"}), b"0123456789"),
            (encode_head({**head, "method": "DELETE"}), b"0123456789"),
        ]
        async with EchoServer(relay).running(NAME) as server:
            for start, body in rubbish:
                await asyncio.to_thread(mailbox.write, 0, channel, start, body)
                await asyncio.sleep(3 * POLL_S)
            assert await RelayAgent(ticket).ask("/good") == b"/good "
        assert [path for path in server.paths if path != "/agent/v1/end"] == ["/good"]

    async def test_a_mailbox_of_another_attempt_gets_nothing(self, relay: RelayTransport) -> None:
        [mine] = await relay.open(NAME)
        [other] = await relay.open(OTHER)
        waiting = asyncio.create_task(RelayAgent(other).ask("/other"))
        async with EchoServer(relay).running(NAME, OTHER) as server:
            assert await RelayAgent(mine).ask("/mine") == b"/mine "
            assert await waiting == b"/other "
        assert sorted(server.paths) == ["/mine", "/other"]

    async def test_only_the_mailboxes_that_are_asked_for_are_listed(self, relay: RelayTransport) -> None:
        for name in (NAME, OTHER):
            [ticket] = await relay.open(name)
            await asyncio.to_thread(_write_request, ticket)
        assert set(await relay.versions({NAME: 1})) == {NAME}
        assert set(await relay.mailboxes()) == {NAME, OTHER}

    async def test_a_new_request_does_not_wait_for_an_old_long_poll(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        async with EchoServer(relay).running(NAME) as server:
            dead = asyncio.create_task(RelayAgent(ticket).ask("/agent/v1/orders?wait_s=1000", timeout_s=-29))
            async with asyncio.timeout(WAIT_S):
                while not server.paths:  # noqa: ASYNC110 - another program writes the request
                    await asyncio.sleep(POLL_S)
            assert await RelayAgent(ticket).ask("/next") == b"/next "
            await asyncio.gather(dead, return_exceptions=True)

    async def test_a_new_request_has_a_new_version(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        seen = set()
        for padding in range(4):
            await asyncio.to_thread(_write_request, ticket, padding)
            seen.add((await relay.versions({NAME: 1}))[NAME][channel_names()[0]])
        assert len(seen) == 4

    async def test_a_removed_mailbox_is_empty_and_can_be_removed_again(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        async with EchoServer(relay).running(NAME):
            await RelayAgent(ticket).ask("/a")
        for _ in range(2):
            await relay.remove(NAME)
            assert NAME not in await relay.mailboxes()
            assert not (await relay.versions({NAME: 1})).get(NAME)

    async def test_nobody_answers_a_mailbox_that_is_not_watched(self, relay: RelayTransport) -> None:
        [ticket] = await relay.open(NAME)
        agent = RelayAgent(ticket)
        async with EchoServer(relay).running(OTHER) as server:
            try:
                await agent.ask("/nobody", timeout_s=-29.5)  # half a second, with the time that a relay adds
            except Unreachable:
                assert server.paths == []
            else:
                raise AssertionError("there was an answer")


def _write_request(ticket: RelayTicket, padding: int = 0) -> None:
    head = {"id": str(padding), "method": "GET", "path": "/", "headers": {}, "size": 0}
    make_mailbox(ticket).write(0, channel_names()[0], encode_head(head, padding), b"")


async def _until_written(relay: RelayTransport, mailbox: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while not (await relay.versions({mailbox: 1})).get(mailbox):  # noqa: ASYNC110 - another program writes it
            await asyncio.sleep(POLL_S)
