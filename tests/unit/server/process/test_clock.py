"""The wake-up of the control loop."""

import asyncio

from anygpu.server.process.clock import LoopWake


async def test_one_waiter_takes_every_changed_job() -> None:
    wake = LoopWake()
    wake.set("a")
    wake.set("b")
    assert await wake.wait(1) == {"a", "b"}
    assert await wake.wait(0.001) == set()


async def test_a_job_set_in_a_thread_wakes_the_loop() -> None:
    wake = LoopWake()
    waiting = asyncio.create_task(wake.wait(5))
    await asyncio.sleep(0)
    await asyncio.to_thread(wake.set, "a")
    assert await waiting == {"a"}
