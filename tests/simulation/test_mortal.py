"""Processes that stand still are not blamed for the time."""

import random

import pytest

from anygpu.testing.faults import Fault, Faults
from anygpu.testing.mortal import Life
from anygpu.testing.virtual import VirtualLoop, run


async def _written(life: Life) -> float:
    async def write() -> float:
        return life._loop.time()

    return await life.through("write", write)


def test_the_time_in_which_a_process_stood_still_is_not_its_own() -> None:
    async def story(loop: VirtualLoop) -> None:
        faults = Faults("seed", {Fault.STALLED: 1.0}, 1.0, loop.time, lambda line: None)
        life = Life("p0.1", loop, faults, 0.0, None, lambda: None)
        until = await _written(life)
        assert 15 <= until <= 60
        assert life.awake_s(0, until) == 0
        assert life.awake_s(0, until + 3) == pytest.approx(3)
        assert life.awake_s(until - 5, until + 3) == pytest.approx(3)
        assert life.awake_s(until + 1, until + 3) == pytest.approx(2)

    run(story)


def test_stalls_that_overlap_count_once() -> None:
    life = Life("p0.1", VirtualLoop(), Faults("", {}, 0, lambda: 0, print), 0.0, None, lambda: None)
    life._stalls = [(10, 30), (20, 40), (50, 60)]
    random.Random(1).shuffle(life._stalls)
    assert life.awake_s(0, 100) == 10 + 10 + 40
    assert life.awake_s(25, 35) == 0
    assert life.awake_s(35, 55) == 10
