"""Signals of the hub wake their followers."""

import asyncio

from anygpu.server.live.hub import ChangeSignal


async def test_a_burst_wakes_many_followers_twice_and_not_for_each_event() -> None:
    signal = ChangeSignal()
    rounds = 0

    async def watch() -> None:
        nonlocal rounds
        while signal.events - start < 10:
            seen = signal.counters
            await signal.wait(seen, 5)
            rounds += 1

    start = signal.events
    watching = [asyncio.create_task(watch()) for _ in range(100)]
    await asyncio.sleep(0)
    for _ in range(10):
        signal.fire(events=1)
    await asyncio.gather(*watching)
    assert rounds <= 200


async def test_a_single_follower_is_woken_at_once() -> None:
    signal = ChangeSignal()
    seen = signal.counters
    waiting = asyncio.create_task(signal.wait(seen, 5))
    await asyncio.sleep(0)
    signal.fire(events=1)
    assert await asyncio.wait_for(waiting, 0.5)
    assert await signal.wait(seen, 0)
    assert not await signal.wait(signal.counters, 0)
