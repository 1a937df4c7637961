"""Processes that stand still are not blamed for the time."""

import random

import pytest

from anygpu.testing.simulation.crashes import ProcessLife
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.virtual_time import VirtualLoop, run


async def _written(life: ProcessLife) -> float:
    async def write() -> float:
        return life._loop.time()

    return await life.call("write", write)


def test_the_time_in_which_a_process_stood_still_is_not_its_own() -> None:
    async def story(loop: VirtualLoop) -> None:
        faults = FaultInjector("seed", {Fault.STALLED: 1.0}, 1.0, loop.time, lambda line: None)
        life = ProcessLife("p0.1", loop, faults, 0.0, None, lambda: None)
        until = await _written(life)
        assert 15 <= until <= 60
        assert life.running_s(0, until) == 0
        assert life.running_s(0, until + 3) == pytest.approx(3)
        assert life.running_s(until - 5, until + 3) == pytest.approx(3)
        assert life.running_s(until + 1, until + 3) == pytest.approx(2)

    run(story)


def test_stalls_that_overlap_count_once() -> None:
    life = ProcessLife(
        "p0.1", VirtualLoop(), FaultInjector("", {}, 0, lambda: 0, print), 0.0, None, lambda: None
    )
    life._stalls = [(10, 30), (20, 40), (50, 60)]
    random.Random(1).shuffle(life._stalls)
    assert life.running_s(0, 100) == 10 + 10 + 40
    assert life.running_s(25, 35) == 0
    assert life.running_s(35, 55) == 10
