"""Who runs in a shared pool."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.queue_replay import POLICIES, Submitted, completion_s
from hypothesis import given
from hypothesis import strategies as st

from anygpu.events.slots import HALF_LIFE_S, SlotUsage
from anygpu.plan.fair_share import (
    MIN_RUN_S,
    STARVATION_S,
    Allocation,
    PoolJob,
    PoolTenant,
    allocate,
    sort_jobs,
)

HOUR_S = 3600.0
NOW_S = 100 * HOUR_S


def job(name: str, *, tenant: str = "one", gpus: int = 1, **rest: object) -> PoolJob:
    found = PoolJob(id=name, tenant=tenant, gpus=gpus, submitted_s=NOW_S - 60, checkpoints=True)
    return replace(found, **rest)  # type: ignore[arg-type]


def running(name: str, *, hours: float = 2, **rest: object) -> PoolJob:
    return job(name, running_since_s=NOW_S - hours * HOUR_S, **rest)  # type: ignore[arg-type]


def orders(gpus: int, *jobs: PoolJob, **tenants: PoolTenant) -> Allocation:
    return allocate(gpus, jobs, tenants, NOW_S)


def test_what_fits_starts_in_the_order_of_submission() -> None:
    late, early = job("late"), job("early", submitted_s=NOW_S - 120)
    assert orders(1, late, early).start == ("early",)


def test_a_higher_priority_goes_first() -> None:
    assert orders(1, job("low"), job("high", priority=5, submitted_s=NOW_S)).start == ("high",)


@pytest.mark.parametrize(("little", "much"), [(0.5, 2.0), (20.0, 40.0), (0.9, 1.0)])
def test_a_job_that_has_taken_little_goes_before_one_that_has_taken_much(little: float, much: float) -> None:
    old = job("old", attained_gpu_s=much * HOUR_S, submitted_s=NOW_S - HOUR_S)
    new = job("new", attained_gpu_s=little * HOUR_S)
    assert [each.id for each in sort_jobs([old, new], {}, NOW_S)] == ["new", "old"]


def test_within_a_band_who_has_used_less_lately_goes_first() -> None:
    heavy, light = PoolTenant(usage=SlotUsage(9e6, NOW_S)), PoolTenant(usage=SlotUsage(1e6, NOW_S))
    jobs = job("a", tenant="heavy", submitted_s=NOW_S - HOUR_S), job("b", tenant="light")
    assert orders(1, *jobs, heavy=heavy, light=light).start == ("b",)


def test_half_of_the_usage_is_forgotten_in_three_days() -> None:
    used = SlotUsage(1000.0, 0.0)
    assert used.decayed(HALF_LIFE_S) == pytest.approx(500)
    assert used.add(100, HALF_LIFE_S).decayed(2 * HALF_LIFE_S) == pytest.approx(300)


def test_a_short_job_preempts_a_long_one_that_checkpoints() -> None:
    long = running("long", attained_gpu_s=40 * HOUR_S, gpus=4)
    found = orders(4, long, job("short"))
    assert (found.preempt, found.start) == (("long",), ("short",))


def test_a_job_that_does_not_checkpoint_is_never_preempted() -> None:
    long = running("long", attained_gpu_s=40 * HOUR_S, gpus=4, checkpoints=False)
    found = orders(4, long, job("urgent", priority=9))
    assert (found.preempt, found.start) == ((), ())
    assert found.wait_reasons["urgent"] == "needs 1 GPUs, 0 are free after the jobs ahead of it"


def test_a_job_that_just_started_is_left_alone() -> None:
    fresh = job("fresh", attained_gpu_s=40 * HOUR_S, running_since_s=NOW_S - MIN_RUN_S + 1)
    assert orders(1, fresh, job("short")).preempt == ()


def test_within_a_band_nothing_is_preempted() -> None:
    heavy = PoolTenant(usage=SlotUsage(9e9, NOW_S))
    found = orders(1, running("a", tenant="heavy"), job("b", tenant="light"), heavy=heavy)
    assert found.preempt == ()


def test_idle_gpus_are_borrowed_and_given_back() -> None:
    tenants = {"one": PoolTenant(quota_gpus=2), "two": PoolTenant(quota_gpus=2)}
    borrowed = [running(f"r{n}", tenant="one") for n in range(4)]
    assert allocate(4, borrowed, tenants, NOW_S).preempt == ()
    back = allocate(4, [*borrowed, job("mine", tenant="two", attained_gpu_s=40 * HOUR_S)], tenants, NOW_S)
    assert back.start == ("mine",)
    assert len(back.preempt) == 1


def test_who_may_not_borrow_waits_at_the_quota() -> None:
    found = orders(4, job("a"), job("b"), one=PoolTenant(quota_gpus=1, may_borrow=False))
    assert found.start == ("a",)
    assert "may not borrow" in found.wait_reasons["b"]


def test_smaller_jobs_fill_the_holes() -> None:
    found = orders(4, running("r", gpus=2, checkpoints=False), job("wide", gpus=4), job("small", gpus=2))
    assert found.start == ("small",)


def test_nobody_new_starts_before_a_job_that_has_waited_too_long() -> None:
    wide = job("wide", gpus=4, submitted_s=NOW_S - STARVATION_S)
    found = orders(4, running("r", gpus=2, checkpoints=False), wide, job("small", gpus=2))
    assert found.start == ()


def test_a_job_the_pool_can_never_hold_holds_up_nobody() -> None:
    found = orders(4, job("giant", gpus=8, submitted_s=0.0), job("small"))
    assert found.start == ("small",)
    assert found.wait_reasons["giant"] == "needs 8 GPUs, the pool has 4"


def test_it_is_told_when_a_running_job_changes_its_band() -> None:
    found = orders(4, running("r", gpus=2, attained_gpu_s=0.5 * HOUR_S))
    assert found.recheck_s == NOW_S + 0.25 * HOUR_S


JOBS = st.lists(
    st.builds(
        PoolJob,
        id=st.uuids().map(str),
        tenant=st.sampled_from("abc"),
        gpus=st.integers(1, 8),
        submitted_s=st.floats(0, NOW_S),
        priority=st.integers(0, 2),
        attained_gpu_s=st.floats(0, 1e6),
        checkpoints=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda each: each.id,
)


def some_running(jobs: list[PoolJob], gpus: int) -> list[PoolJob]:
    free, found = gpus, []
    for number, each in enumerate(jobs):
        runs = number % 2 == 0 and each.gpus <= free
        free -= each.gpus if runs else 0
        found.append(replace(each, running_since_s=0.0) if runs else each)
    return found


@given(jobs=JOBS, gpus=st.integers(1, 16), quota=st.integers(0, 8))
def test_the_pool_is_never_overfilled_and_the_order_of_the_list_is_nothing(
    jobs: list[PoolJob], gpus: int, quota: int
) -> None:
    jobs = some_running(jobs, gpus)
    tenants = {name: PoolTenant(quota_gpus=quota) for name in "abc"}
    found = allocate(gpus, jobs, tenants, NOW_S)
    by_id = {each.id: each for each in jobs}
    after = ({each.id for each in jobs if each.running} - set(found.preempt)) | set(found.start)
    assert sum(by_id[name].gpus for name in after) <= gpus
    assert all(by_id[name].checkpoints for name in found.preempt)
    assert set(found.wait_reasons) == set(by_id) - after
    assert allocate(gpus, jobs[::-1], tenants, NOW_S) == found


def test_every_job_of_a_replay_ends_and_short_ones_sooner_than_under_fifo() -> None:
    long = [Submitted(f"long-{n}", "big", 4, 0.0, 50 * HOUR_S) for n in range(4)]
    short = [Submitted(f"short-{n}", "small", 1, 3600.0 * n, 600.0) for n in range(40)]
    ours = completion_s([*long, *short], 8, {}, POLICIES["anygpu"], 60.0)
    fifo = completion_s([*long, *short], 8, {}, POLICIES["fifo"], 60.0)
    assert set(ours) == set(fifo) == {each.id for each in [*long, *short]}
    assert max(ours[each.id] for each in short) < 2 * 600 + MIN_RUN_S
    assert sum(ours.values()) < sum(fifo.values())
