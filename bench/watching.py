"""From an event's timestamp to two hundred WebSocket watchers, while agents report."""

import asyncio
import json
import time

from websockets.asyncio.client import connect

from bench.ingest import load
from bench.stage import Figure, Stage, quantile_ms

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
    url = f"ws://127.0.0.1:{stage.port}/api/v1/stream?after={after}"
    async with connect(url, additional_headers=stage.headers, compression=None, open_timeout=60) as socket:
        ready.release()
        async for text in socket:
            now = time.time()
            message = json.loads(text)
            if message["kind"] == "event":
                lags.append(max(0.0, now - _unix(message["event"]["at"])))


def _unix(at: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(at).timestamp()


def _make_events(stage: Stage) -> None:
    """Submitting and cancelling a job that waits makes at least three events."""
    end = time.perf_counter() + SECONDS
    due = time.perf_counter()
    spec = {"command": "true", "resources": {"gpu": "H100:8"}}
    while time.perf_counter() < end:
        job = stage.call("POST", "/api/v1/training", spec)["id"]
        stage.call("POST", f"/api/v1/training/{job}/cancel")
        due += 3 / EVENTS_PER_S
        time.sleep(max(0.0, due - time.perf_counter()))
