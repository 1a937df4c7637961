"""Predict what a project spends until the end of a month, from its daily costs and its running jobs. Pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from math import sqrt
from statistics import fmean, stdev

HISTORY_DAYS = 28  # how many days before today are averaged
NINE_IN_TEN = 1.645  # standard deviations on each side of a 90 % interval
SATURDAY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJobsCost:
    """What running jobs still cost until their ends, in micro-dollars."""

    expected: int = 0
    low: int = 0
    high: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthProjection:
    """Predicted cost of a whole month in micro-dollars, with a 90 % interval, and that of each day to come."""

    expected: int
    low: int
    high: int
    days: Mapping[date, int]
    history_days: int  # days that were averaged


def project_month(
    *,
    spent: int,
    today: date,
    last: date,
    elapsed: float,
    history: Mapping[date, int],
    running: RunningJobsCost,
) -> MonthProjection:
    """Predict the cost of the month that ends with the day `last`.

    `spent` is the cost of the month until now, and `elapsed` the part of today that is over. `history` has the costs
    of complete days before today; weekends are averaged apart from the other days. The rest of the month costs at
    least what the running jobs still cost.
    """
    to_come = [today + timedelta(days=n) for n in range((last - today).days + 1)]
    averages = {day: _average(day, history) for day in to_come}
    weights = {day: 1 - elapsed if day == today else 1.0 for day in to_come}
    mean = sum(averages[day] * weights[day] for day in to_come)
    spread = NINE_IN_TEN * _deviation(history) * _uncertainty(sum(weights.values()), len(history))
    rest = max(mean, running.expected)
    scale = rest / mean if mean else 0.0
    return MonthProjection(
        expected=spent + round(rest),
        low=spent + round(max(0.0, min(rest, mean - spread), running.low)),
        high=spent + round(max(mean + spread, running.high, rest)),
        days={day: round(averages[day] * scale) for day in to_come if day != today},
        history_days=len(history),
    )


def _average(day: date, history: Mapping[date, int]) -> float:
    """Return the average cost of days of the same kind (weekend or not); of all days if there are none."""
    alike = [cost for each, cost in history.items() if _is_weekend(each) == _is_weekend(day)]
    return fmean(alike or history.values()) if history else 0.0


def _deviation(history: Mapping[date, int]) -> float:
    """Return the standard deviation of a day from the average of its kind."""
    if len(history) < 2:
        return _average(next(iter(history)), history) if history else 0.0
    return stdev(cost - _average(day, history) for day, cost in history.items())


def _uncertainty(days_to_come: float, days_known: int) -> float:
    """Return the factor for the sum of several days: each one varies, and so does their estimated average."""
    return sqrt(days_to_come + days_to_come**2 / max(1, days_known))


def _is_weekend(day: date) -> bool:
    return day.weekday() >= SATURDAY
