"""The projection of a month, from daily costs and running jobs."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from anygpu.plan.predict.spending import RunningJobsCost, project_month

MONDAY = date(2026, 11, 16)
LAST = date(2026, 11, 30)


def history(weekday: int, weekend: int, days: int = 28) -> dict[date, int]:
    past = [MONDAY - timedelta(days=n) for n in range(1, days + 1)]
    return {day: weekend if day.weekday() >= 5 else weekday for day in past}


def test_days_to_come_cost_the_average_of_their_kind() -> None:
    found = project_month(
        spent=100, today=MONDAY, last=LAST, elapsed=0.5, history=history(10, 2), running=RunningJobsCost()
    )
    assert found.days[date(2026, 11, 17)] == 10
    assert found.days[date(2026, 11, 21)] == 2
    assert len(found.days) == 14
    assert found.expected == 100 + 5 + 10 * 10 + 4 * 2
    assert found.low == found.expected == found.high  # the days never differed


def test_days_that_differ_widen_the_interval() -> None:
    varied = {day: cost + (day.day % 2) * 10 for day, cost in history(10, 2).items()}
    found = project_month(
        spent=0, today=MONDAY, last=LAST, elapsed=0, history=varied, running=RunningJobsCost()
    )
    assert found.low < found.expected < found.high


def test_the_month_costs_at_least_what_running_jobs_still_cost() -> None:
    running = RunningJobsCost(expected=5000, low=4000, high=9000)
    found = project_month(
        spent=100, today=MONDAY, last=LAST, elapsed=0, history=history(10, 2), running=running
    )
    assert (found.expected, found.low, found.high) == (5100, 4100, 9100)


def test_without_a_complete_day_only_running_jobs_count() -> None:
    running = RunningJobsCost(expected=50, low=40, high=60)
    found = project_month(spent=7, today=MONDAY, last=LAST, elapsed=0.2, history={}, running=running)
    assert (found.expected, found.low, found.high, found.history_days) == (57, 47, 67, 0)
    assert set(found.days.values()) == {0}


@given(
    spent=st.integers(0, 10**12),
    elapsed=st.floats(0, 1),
    costs=st.lists(st.integers(0, 10**10), max_size=28),
    left=st.tuples(st.integers(0, 10**10), st.integers(0, 10**10), st.integers(0, 10**10)),
)
def test_the_interval_contains_the_expected_cost(
    spent: int, elapsed: float, costs: list[int], left: tuple[int, int, int]
) -> None:
    low, expected, high = sorted(left)
    days = {MONDAY - timedelta(days=n): cost for n, cost in enumerate(costs, start=1)}
    running = RunningJobsCost(expected=expected, low=low, high=high)
    found = project_month(
        spent=spent, today=MONDAY, last=LAST, elapsed=elapsed, history=days, running=running
    )
    assert spent <= found.low <= found.expected <= found.high
