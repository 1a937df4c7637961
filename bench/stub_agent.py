"""An agent as a coroutine: it claims, reports, beats and listens for orders over HTTP, and trains nothing."""

import asyncio
import contextlib
import json
import random
import secrets
import time
from typing import Any

POINT_EVERY_S = 10.0
ORDERS_WAIT_S = 20
AGAIN_S = 0.2


class Refused(Exception):
    """The server answered, and the answer is no."""


class StubAgent:
    """One attempt's agent. `port` is where its tunnel begins; a new connection to the machine makes it another."""

    def __init__(self, ticket: str, port: int) -> None:
        self.port = port
        self._ticket = ticket
        self._claimant = secrets.token_hex(8)
        self._token = ""
        self._seq = self._step = 0
        self._ordered = asyncio.Event()

    async def run(self) -> None:
        """From the claim to the order that ends it; a refusal ends it too, as it does a real one."""
        with contextlib.suppress(Refused):
            reports = Line(self)
            work = await reports.call("POST", "/agent/v1/claim", self._claim())
            self._token = work["token"]
            await self._report(reports, {"kind": "phase", "phase": "training", "message": ""})
            listening = asyncio.create_task(self._follow_orders())
            try:
                await self._train(reports, work["heartbeat_s"])
                await reports.call("POST", "/agent/v1/end", self._end())
            finally:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)

    @property
    def token(self) -> str:
        return self._token

    async def _train(self, reports: "Line", heartbeat_s: float) -> None:
        """Points now and then, beats between them. Agents that started together do not stay in step."""
        point_at = time.monotonic() + random.uniform(0, POINT_EVERY_S)
        while not await self._ordered_within(random.uniform(0.8, 1) * heartbeat_s):
            if time.monotonic() < point_at:
                self._obey(await reports.call("POST", "/agent/v1/heartbeat", b""))
                continue
            point_at += POINT_EVERY_S
            self._step += 1
            await self._report(
                reports, {"kind": "metrics", "points": [["loss", self._step, time.time(), 1 / self._step]]}
            )

    async def _ordered_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ordered.wait()
        return self._ordered.is_set()

    async def _follow_orders(self) -> None:
        polling, version = Line(self), 0
        while not self._ordered.is_set():
            path = f"/agent/v1/orders?after={version}&wait_s={ORDERS_WAIT_S}"
            answer = await polling.call("GET", path, b"")
            version = answer["version"]
            self._obey(answer)

    async def _report(self, reports: "Line", frame: dict[str, Any]) -> None:
        self._seq += 1
        body = json.dumps({"seq": self._seq, **frame}).encode() + b"\n"
        path = f"/agent/v1/reports?first={self._seq}&last={self._seq}"
        self._obey(await reports.call("POST", path, body))

    def _obey(self, answer: dict[str, Any]) -> None:
        if answer["orders"]:
            self._ordered.set()

    def _claim(self) -> bytes:
        told = {
            "protocol": 1,
            "ticket": self._ticket,
            "claimant": self._claimant,
            "host": {"hostname": "stub"},
            "agent_version": "0.1.0",
        }
        return json.dumps(told).encode()

    def _end(self) -> bytes:
        told = {
            "outcome": "cancelled",
            "exit_code": None,
            "signal": None,
            "message": "",
            "last_seq": self._seq,
            "log_bytes": 0,
            "metric_points": self._step,
            "step": self._step,
        }
        return json.dumps(told).encode()


class Line:
    """One kept connection through the tunnel. What breaks is tried again, wherever the tunnel is by then."""

    def __init__(self, agent: StubAgent) -> None:
        self._agent = agent
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        while True:
            try:
                return await self._once(method, path, body)
            except (OSError, EOFError):
                self._hang_up()
                await asyncio.sleep(AGAIN_S)
            except BaseException:
                self._hang_up()
                raise

    async def _once(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._agent.port)
        reader, writer = self._streams
        token = f"Authorization: Bearer {self._agent.token}\r\n" if self._agent.token else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        return await _answer(reader)

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _answer(reader: asyncio.StreamReader) -> dict[str, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in head if line.startswith(b"content-length"))
    body = await reader.readexactly(length)
    if b" 200 " not in head[0]:
        raise Refused(f"{head[0].decode()} {body.decode()}")
    answer: dict[str, Any] = json.loads(body)
    return answer
