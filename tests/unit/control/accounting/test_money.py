"""What attempts cost: the provider's rule, its clock, and what is assumed where it does not say."""

import pytest
from tests.unit.control.jobs_in_states import ended, launched, launching, lost, recovering, training, view

from anygpu.backends.contract import BilledInterval, MachineState, Observation
from anygpu.control.accounting.money import (
    budget_failure,
    cost_at,
    cost_so_far,
    format_dollars,
    is_over_budget,
    orphan_usage,
    remaining_budget,
    usage_of,
)
from anygpu.events.facts import Usage
from anygpu.events.offers import Billing
from anygpu.events.types import AttemptReleased, MachineStarted
from anygpu.events.view import AttemptView, JobView

RULES = [
    # step, minimum, seconds used, seconds billed
    (1, 0, 0, 0),
    (1, 0, 61, 61),
    (1, 60, 1, 60),
    (1, 60, 61, 61),
    (60, 0, 61, 120),
    (60, 0, 120, 120),
    (3600, 3600, 1, 3600),
    (3600, 0, 3601, 7200),
]


@pytest.mark.parametrize(("step_s", "minimum_s", "used_s", "billed_s"), RULES)
def test_time_is_counted_in_steps_and_not_below_the_minimum(
    step_s: int, minimum_s: int, used_s: int, billed_s: int
) -> None:
    assert Billing(step_s=step_s, minimum_s=minimum_s).billed_s(used_s) == billed_s


def test_a_cost_is_rounded_to_the_nearest_micro_dollar() -> None:
    assert [Billing().cost_microusd(1, used_s) for used_s in (0, 1799, 1800, 5399, 5400)] == [0, 0, 1, 1, 2]


def attempt_of(job: JobView) -> AttemptView:
    assert job.newest_attempt is not None
    return job.newest_attempt


def seen(start_ms: int | None, end_ms: int | None, **more: object) -> Observation:
    return Observation(state=MachineState.GONE, started_at_ms=start_ms, ended_at_ms=end_ms, **more)  # type: ignore[arg-type]


def test_an_interval_by_the_providers_clock_is_exact_and_counts_whole_seconds() -> None:
    usage = usage_of(attempt_of(view(*training())), seen(10_900, 70_100), 999_000)
    assert usage == Usage(started_at_ms=10_900, ended_at_ms=70_100, cost_microusd=60_000)


def test_an_end_the_provider_does_not_tell_is_the_one_that_was_observed() -> None:
    usage = usage_of(attempt_of(view(*training())), seen(10_000, None), 40_000)
    assert usage is not None
    assert (usage.cost_microusd, usage.source) == (30_000, "observed")


def test_a_provider_that_tells_nothing_is_charged_from_the_intent_on() -> None:
    usage = usage_of(attempt_of(view(*launched())), None, 12_000)
    assert usage is not None
    assert (usage.started_at_ms, usage.cost_microusd, usage.source) == (2_000, 10_000, "observed")


def test_a_start_that_was_written_down_outlives_the_providers_memory() -> None:
    job = view(*launched(), MachineStarted(attempt=1, started_at_ms=7_000, price_microusd_per_hour=7_200_000))
    usage = usage_of(attempt_of(job), None, 12_000)
    assert usage is not None
    assert usage.cost_microusd == 10_000


def test_what_was_never_there_costs_nothing() -> None:
    assert usage_of(attempt_of(view(launching())), None, 99_000) is None


def test_twins_are_charged_too_each_at_its_own_price() -> None:
    twins = (BilledInterval(started_at_ms=5_000, ended_at_ms=15_000, price_microusd_per_hour=7_200_000),)
    usage = usage_of(attempt_of(view(*training())), seen(10_000, 20_000, duplicates=twins), 0)
    assert usage is not None
    assert (usage.started_at_ms, usage.cost_microusd) == (5_000, 10_000 + 20_000)


def test_a_machine_that_turns_up_late_adds_what_the_ledger_lacks_and_only_once() -> None:
    over = [*launched(), lost()]
    job = view(*over, AttemptReleased(attempt=1))
    late = orphan_usage(attempt_of(job), seen(10_000, 15_000), 0)
    assert late is not None
    assert late.cost_microusd == 5_000
    paid = view(*over, AttemptReleased(attempt=1, usage=late))
    assert orphan_usage(attempt_of(paid), seen(10_000, 15_000), 0) is None


def test_what_is_spent_is_the_ledger_and_what_runs() -> None:
    usage = Usage(started_at_ms=0, ended_at_ms=1, cost_microusd=500)
    first = [*training(), lost(), AttemptReleased(attempt=1, usage=usage), recovering()]
    job = view(*first, *training(2))
    assert cost_so_far(job, {2: 9.5}) == 500 + 10_000
    assert cost_so_far(job, {2: 9.5}, ahead_s=10) == 500 + 20_000
    assert cost_at(job, attempt_of(job).launching_at_ms + 9_500) == 500 + 10_000


def test_a_budget_is_over_when_going_on_would_cost_more_than_it() -> None:
    job = view(*training(), limits={"max_cost_microusd": 100_000})
    assert not is_over_budget(job, {1: 79.5}, ahead_s=20)
    assert is_over_budget(job, {1: 80.5}, ahead_s=20)
    assert remaining_budget(job, attempt_of(job).launching_at_ms + 29_500) == 70_000
    assert remaining_budget(view(*training()), 0) is None


def test_an_hour_that_is_paid_for_may_be_used() -> None:
    hourly = view(*training(), limits={"max_cost_microusd": 3_600_000})
    attempt = attempt_of(hourly)
    assert attempt.offer.billing.cost_microusd(attempt.hourly_microusd, 3600) == 3_600_000
    assert not is_over_budget(hourly, {1: 3_478.0}, ahead_s=120)


def test_a_used_up_budget_says_what_was_spent_of_what() -> None:
    job = view(*training(), ended(), limits={"max_cost_microusd": 2_500_000})
    assert budget_failure(job, 2_499_000).message.startswith("the budget is used up: $2.50 of $2.50 spent; ")
    assert (format_dollars(12_345), format_dollars(1_234_567_000_000)) == ("$0.0123", "$1,234,567.00")
