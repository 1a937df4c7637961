"""Virtual time: it passes only when nothing is left to do."""

import asyncio

import pytest

from anygpu.testing.simulation.virtual_time import (
    Deadlock,
    SeededRandomness,
    SimWake,
    VirtualClock,
    VirtualLoop,
    run,
)


def test_time_jumps_to_the_next_timer() -> None:
    async def main(loop: VirtualLoop) -> list[float]:
        times = []
        for seconds in (3600.0, 0.5):
            await asyncio.sleep(seconds)
            times.append(loop.time())
        return times

    assert run(main) == [3600.0, 3600.5]


def test_timers_of_the_same_moment_keep_their_order() -> None:
    async def main(loop: VirtualLoop) -> list[int]:
        order: list[int] = []
        for number in range(5):
            loop.call_later(1, order.append, number)
        await asyncio.sleep(2)
        return order

    assert run(main) == [0, 1, 2, 3, 4]


def test_a_world_in_which_everybody_waits_is_a_deadlock() -> None:
    async def main(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        run(main)


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not() -> None:
    clock = VirtualClock(VirtualLoop(), start_ms=1000)
    clock.jumped_ms = -500
    assert (clock.wall_ms(), clock.monotonic()) == (500, 0.0)


def test_chance_is_the_same_for_the_same_seed() -> None:
    assert SeededRandomness("a").token(4) == SeededRandomness("a").token(4)
    assert SeededRandomness("a").uniform(0, 1) != SeededRandomness("b").uniform(0, 1)


def test_a_wake_up_ends_the_wait_and_silence_ends_it_in_time() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[float, set[str]]]:
        wake = SimWake(loop)
        loop.call_later(3, wake.set, "job")
        first = set(await wake.wait(10))
        woken_at = loop.time()
        second = set(await wake.wait(10))
        return [(woken_at, first), (loop.time(), second)]

    assert run(main) == [(3.0, {"job"}), (13.0, set())]
