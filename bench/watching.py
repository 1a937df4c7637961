"""Measure the delay from an event to two hundred WebSocket watchers, while agents report, and through relays."""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache

from bench import relay
from bench.ingest import load
from bench.server import BenchServer, Figure, quantile_ms

AT = re.compile(rb'"at":"([^"]+)"')
WATCHERS, EVENTS_PER_S, SECONDS = 200, 20, 10.0
WITHIN_S = 60


def measure(server: BenchServer, *, quick: bool = False) -> list[Figure]:
    watchers, seconds = (5, 1.0) if quick else (WATCHERS, SECONDS)
    with _all_slots_taken(server):
        lags = asyncio.run(_measure(server, watchers, seconds))
    p99 = quantile_ms(lags, 0.99)
    return [
        Figure(
            what=f"from an event to {watchers} clients that watch it ({EVENTS_PER_S} events/s)",
            ours=f"p50 {quantile_ms(lags, 0.5):.0f} ms, p99 {p99:.0f} ms",
            against=f"{len(lags):,} deliveries",
            clients=f"{watchers} watchers, 50 agents",
            target="p99 under 50 ms",
            met=p99 < 50,
            how=f"{seconds:.0f} s; at the same time, 50 agents report 20 points/s each",
        ),
        *relay.measure(quick=quick),
    ]


@contextmanager
def _all_slots_taken(server: BenchServer) -> Iterator[None]:
    """Run a job that takes every CPU slot of the server, so that other jobs wait."""
    spec = {"command": "sleep 600", "resources": {"cpus": os.cpu_count()}}
    path = f"/api/v1/training/{server.call('POST', '/api/v1/training', spec)['id']}"
    end = time.monotonic() + WITHIN_S
    while server.call("GET", path)["phase"] != "training":
        if time.monotonic() > end:
            raise RuntimeError(f"the job that takes all slots did not start within {WITHIN_S} s")
        time.sleep(0.05)
    yield
    server.call("POST", f"{path}/cancel")


async def _measure(server: BenchServer, count: int, seconds: float) -> list[float]:
    head = await asyncio.to_thread(server.call, "GET", "/api/v1/training?limit=1")
    after = 0
    if head["jobs"]:
        job = head["jobs"][0]["id"]
        events = await asyncio.to_thread(server.call, "GET", f"/api/v1/training/{job}/events?limit=1000")
        after = events["next_after"]
    lags: list[float] = []
    ready = asyncio.Semaphore(0)
    watchers = [asyncio.create_task(_watch(server, after, lags, ready)) for _ in range(count)]
    for _ in watchers:
        await ready.acquire()
    lags.clear()
    ingest = asyncio.create_task(load(server, clients=50, points=20, every_s=1.0, seconds=seconds))
    await asyncio.to_thread(_make_events, server, seconds)
    await ingest
    await asyncio.sleep(0.5)
    for watcher in watchers:
        watcher.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    return lags


async def _watch(server: BenchServer, after: int, lags: list[float], ready: asyncio.Semaphore) -> None:
    loop = asyncio.get_running_loop()
    transport, watcher = await loop.create_connection(lambda: Watcher(lags), "127.0.0.1", server.port)
    transport.write(
        (
            f"GET /api/v1/stream?after={after} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Authorization: Bearer {server.token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
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


def _make_events(server: BenchServer, seconds: float) -> None:
    """Submitting a job that waits, and cancelling it, makes four events."""
    end = time.perf_counter() + seconds
    due = time.perf_counter()
    spec = {"command": "true"}
    while time.perf_counter() < end:
        job = server.call("POST", "/api/v1/training", spec)["id"]
        server.call("POST", f"/api/v1/training/{job}/cancel")
        due += 4 / EVENTS_PER_S
        time.sleep(max(0.0, due - time.perf_counter()))
