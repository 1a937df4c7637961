"""From an event's timestamp to two hundred WebSocket watchers, while agents report."""

import asyncio
import re
import time
from datetime import datetime
from functools import cache

from bench.ingest import load
from bench.stage import Figure, Stage, quantile_ms

AT = re.compile(rb'"at":"([^"]+)"')
WATCHERS, EVENTS_PER_S, SECONDS = 200, 20, 10.0


def measure(stage: Stage) -> list[Figure]:
    lags = asyncio.run(_measure(stage))
    p99 = quantile_ms(lags, 0.99)
    return [
        Figure(
            what=f"event to WebSocket, {WATCHERS} watchers, {EVENTS_PER_S} events/s",
            ours=f"p50 {quantile_ms(lags, 0.5):.0f} ms, p99 {p99:.0f} ms",
            against=f"{len(lags):,} deliveries",
            ratio="",
            target="p99 under 50 ms",
            met=p99 < 50,
            how=f"{SECONDS:.0f} s, with 50 agents x 20 points/s reporting; from the event's own time, commit included",
        )
    ]


async def _measure(stage: Stage) -> list[float]:
    head = await asyncio.to_thread(stage.call, "GET", "/api/v1/training?limit=1")
    after = 0
    if head["jobs"]:
        job = head["jobs"][0]["id"]
        events = await asyncio.to_thread(stage.call, "GET", f"/api/v1/training/{job}/events?limit=1000")
        after = events["next_after"]
    lags: list[float] = []
    ready = asyncio.Semaphore(0)
    watchers = [asyncio.create_task(_watch(stage, after, lags, ready)) for _ in range(WATCHERS)]
    for _ in watchers:
        await ready.acquire()
    lags.clear()
    ingest = asyncio.create_task(load(stage, clients=50, points=20, every_s=1.0, seconds=SECONDS))
    await asyncio.to_thread(_make_events, stage)
    await ingest
    await asyncio.sleep(0.5)
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    return lags


async def _watch(stage: Stage, after: int, lags: list[float], ready: asyncio.Semaphore) -> None:
    loop = asyncio.get_running_loop()
    transport, watcher = await loop.create_connection(lambda: Watcher(lags), "127.0.0.1", stage.port)
    transport.write(
        (
            f"GET /api/v1/stream?after={after} HTTP/1.1\r\nHost: 127.0.0.1:{stage.port}\r\n"
            f"Authorization: Bearer {stage.token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        ).encode()
    )
    await watcher.upgraded
    ready.release()
    try:
        await watcher.closed
    finally:
        transport.close()


class Watcher(asyncio.Protocol):
    """A WebSocket client that only notes when each event came: two hundred of them must cost less than the server."""

    def __init__(self, lags: list[float]) -> None:
        self._lags = lags
        self._pending = b""
        self.upgraded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self._pending += data
        if not self.upgraded.done():
            head, found, self._pending = self._pending.partition(b"\r\n\r\n")
            if not found:
                self._pending = head
                return
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                self.upgraded.set_exception(RuntimeError(head.decode()))
                return
            self.upgraded.set_result(None)
        while (payload := self._frame()) is not None:
            self._lags += [max(0.0, now - unix(at)) for at in AT.findall(payload)]

    def _frame(self) -> bytes | None:
        """The next whole frame; a server's are not masked."""
        data = self._pending
        if len(data) < 4:
            return None
        length, start = data[1] & 127, 2
        if length == 126:
            length, start = int.from_bytes(data[2:4], "big"), 4
        elif length == 127:
            length, start = int.from_bytes(data[2:10], "big"), 10
        if len(data) < start + length:
            return None
        self._pending = data[start + length :]
        return data[start : start + length]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


@cache
def unix(at: bytes) -> float:
    return datetime.fromisoformat(at.decode()).timestamp()


def _make_events(stage: Stage) -> None:
    """Submitting a job that waits, and cancelling it, makes four events."""
    end = time.perf_counter() + SECONDS
    due = time.perf_counter()
    spec = {"command": "true", "resources": {"gpu": "H100:8"}}
    while time.perf_counter() < end:
        job = stage.call("POST", "/api/v1/training", spec)["id"]
        stage.call("POST", f"/api/v1/training/{job}/cancel")
        due += 4 / EVENTS_PER_S
        time.sleep(max(0.0, due - time.perf_counter()))
