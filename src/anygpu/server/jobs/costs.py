"""Read the costs of a project: sums from the store, and the running attempts until now."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import date, timedelta, tzinfo

from anygpu.api.costs import (
    CostFigures,
    CostGroup,
    CostRest,
    CostSummary,
    CostTable,
    ExpectedDay,
    Grouping,
    MonthEstimate,
    PredictionQuality,
)
from anygpu.control.accounting.money import cost_at, running_cost
from anygpu.control.clock import Clock
from anygpu.events.costs import CostEntry, has_machine, make_entry
from anygpu.events.view import AttemptView, JobView
from anygpu.plan.predict.accuracy import JudgedPrediction, measure_accuracy
from anygpu.plan.predict.spending import HISTORY_DAYS, MonthProjection, RunningJobsCost, project_month
from anygpu.server.jobs.queue import QueueSnapshot, is_visible
from anygpu.store.calendar import DayRange, day_number, local_day, midnight_ms, month_of, numbered_day
from anygpu.store.costs import Bucket, CostReport, Costs, CostSums
from anygpu.store.outcomes import Outcomes
from anygpu.store.scope import Scope


class CostReader:
    """Reads sums of the costs of a project. Attempts that run now are included until now."""

    def __init__(self, costs: Costs, outcomes: Outcomes, queue: QueueSnapshot, clock: Clock) -> None:
        self._costs, self._outcomes, self._queue, self._clock = costs, outcomes, queue, clock

    def today(self, zone: tzinfo) -> date:
        return local_day(self._clock.wall_ms(), zone)

    async def table(
        self, scope: Scope, days: DayRange, by: Grouping, *, daily: bool, limit: int
    ) -> CostTable:
        """Return the costs of a range of days by group; at most `limit` groups, and the sum of the others."""
        running = await self._running_entries(scope)
        report = await self._costs.report(scope, days, by, running, daily=daily)
        keys = sorted(report.groups, key=_order(report, by))
        listed, others = keys[:limit], keys[limit:]
        dates = days.days if daily else None
        counted = sum(sums.microusd for sums in report.groups.values())
        return CostTable(
            by=by,
            first_day=days.first.isoformat(),
            last_day=days.last.isoformat(),
            timezone=zone_name(days.zone),
            days=None if dates is None else [day.isoformat() for day in dates],
            groups=[
                CostGroup(
                    key=numbered_day(int(key)).isoformat() if by == "day" else key,
                    **_figures(report.groups[key]),
                    daily_microusd=_daily(report, [key], dates),
                )
                for key in listed
            ],
            rest=_render_rest(report, others, dates),
            total=CostFigures(**_figures(report.total)),
            daily_microusd=(
                None if dates is None else [report.daily_total.get(day_number(day), 0) for day in dates]
            ),
            overlap_microusd=counted - report.total.microusd,
        )

    async def today_and_month(self, scope: Scope, zone: tzinfo) -> tuple[int, int]:
        """Return what today and this month have cost until now, in micro-dollars."""
        running, today = await self._running_entries(scope), self.today(zone)
        month = await self._costs.total(scope, month_of(today, zone), running)
        return await self._cost_of(scope, DayRange(today, today, zone), running), month.microusd

    async def summary(self, scope: Scope, month: date, zone: tzinfo) -> CostSummary:
        """Return the costs of the month that contains the day `month`, and how it will probably go on."""
        days, today = month_of(month, zone), self.today(zone)
        running = await self._running_entries(scope)
        total = await self._costs.total(scope, days, running)
        first_ms = await self._costs.first_ms(scope)
        known = [each for each in (first_ms, *(entry.started_at_ms for entry in running)) if each is not None]
        projection = None
        if days.first <= today <= days.last:
            projection = await self._project(scope, days, total.microusd, running)
        return CostSummary(
            month=days.first.isoformat()[:7],
            timezone=zone_name(zone),
            today=today.isoformat(),
            first_month=local_day(min(known), zone).isoformat()[:7] if known else None,
            days_so_far=max(0, (min(today, days.last) - days.first).days + 1),
            today_microusd=await self._cost_of(scope, DayRange(today, today, zone), running),
            total=CostFigures(**_figures(total)),
            on_demand_microusd=total.microusd + total.saved_microusd,
            projection=projection,
            predictions=await self._prediction_quality(scope, days),
        )

    async def _project(
        self, scope: Scope, days: DayRange, spent: int, running: Sequence[CostEntry]
    ) -> MonthEstimate:
        today, now_ms = self.today(days.zone), self._clock.wall_ms()
        history = await self._history(scope, DayRange(today, today, days.zone), running)
        remaining = _remaining_cost(await self._live(scope), now_ms)
        begin_ms, end_ms = (
            midnight_ms(today, days.zone),
            midnight_ms(today + timedelta(days=1), days.zone),
        )
        found = project_month(
            spent=spent,
            today=today,
            last=days.last,
            elapsed=(now_ms - begin_ms) / max(1, end_ms - begin_ms),
            history=history,
            running=remaining,
        )
        return _render_projection(found, remaining)

    async def _history(self, scope: Scope, today: DayRange, running: Sequence[CostEntry]) -> dict[date, int]:
        """Return the costs of complete days before today, from the first day with costs on."""
        yesterday = today.first - timedelta(days=1)
        before = DayRange(today.first - timedelta(days=HISTORY_DAYS), yesterday, today.zone)
        groups = (await self._costs.report(scope, before, "day", running)).groups
        costs = {numbered_day(int(number)): sums.microusd for number, sums in groups.items()}
        first = min((day for day, cost in costs.items() if cost), default=None)
        return {day: costs.get(day, 0) for day in before.days if first is not None and day >= first}

    async def _prediction_quality(self, scope: Scope, days: DayRange) -> PredictionQuality:
        outcomes = await self._outcomes.for_project(scope, days.from_ms, days.to_ms)
        judged = [
            JudgedPrediction(prediction=each.predicted, wall_s=each.wall_s, cost_microusd=each.cost_microusd)
            for each in outcomes
            if each.predicted is not None
        ]
        return PredictionQuality.model_validate(asdict(measure_accuracy(judged)))

    async def _cost_of(self, scope: Scope, days: DayRange, running: Sequence[CostEntry]) -> int:
        return (await self._costs.total(scope, days, running)).microusd

    async def _live(self, scope: Scope) -> list[JobView]:
        return [view for view in await self._queue.live() if is_visible(view, scope) and not view.damaged]

    async def _running_entries(self, scope: Scope) -> list[CostEntry]:
        now_ms = self._clock.wall_ms()
        return [
            _running_entry(view, attempt, now_ms)
            for view in await self._live(scope)
            for attempt in view.attempts
            if not attempt.is_released and has_machine(attempt)
        ]


def _running_entry(view: JobView, attempt: AttemptView, now_ms: int) -> CostEntry:
    began_ms = attempt.started_at_ms or attempt.launching_at_ms
    cost = running_cost(attempt, (now_ms - began_ms) / 1000)
    return make_entry(view, attempt, began_ms, now_ms, cost)


def _remaining_cost(views: Sequence[JobView], now_ms: int) -> RunningJobsCost:
    """Return what running jobs still cost by their newest predictions."""
    left = [
        (cost_at(view, now_ms), view.prediction)
        for view in views
        if view.prediction is not None and view.live_attempt is not None
    ]
    return RunningJobsCost(
        expected=sum(max(0, said.cost_microusd - spent) for spent, said in left),
        low=sum(max(0, said.cost_low_microusd - spent) for spent, said in left),
        high=sum(max(0, said.cost_high_microusd - spent) for spent, said in left),
    )


def _render_projection(found: MonthProjection, remaining: RunningJobsCost) -> MonthEstimate:
    return MonthEstimate(
        microusd=found.expected,
        low_microusd=found.low,
        high_microusd=found.high,
        running_microusd=remaining.expected,
        history_days=found.history_days,
        days=[ExpectedDay(day=day.isoformat(), microusd=cost) for day, cost in found.days.items()],
    )


def _render_rest(report: CostReport, keys: Sequence[str], days: Sequence[date] | None) -> CostRest | None:
    if not keys:
        return None
    sums = CostSums()
    for key in keys:
        sums.add(report.groups[key])
    return CostRest(groups=len(keys), **_figures(sums), daily_microusd=_daily(report, keys, days))


def _daily(report: CostReport, keys: Sequence[str], days: Sequence[date] | None) -> list[int] | None:
    if days is None:
        return None
    return [sum(report.daily.get(Bucket(day_number(day), key), 0) for key in keys) for day in days]


def _figures(sums: CostSums) -> dict[str, int | float]:
    figures = asdict(sums)
    machine_ms, gpu_ms = figures.pop("machine_ms"), figures.pop("gpu_ms")
    return {**figures, "machine_s": machine_ms / 1000, "gpu_s": gpu_ms / 1000}


def _order(report: CostReport, by: Grouping) -> Callable[[str], tuple[float, float, str]]:
    """Return the sort key of groups: days in order, others by cost and time, largest first."""
    if by == "day":
        return lambda key: (int(key), 0, "")
    return lambda key: (-report.groups[key].microusd, -report.groups[key].machine_ms, key)


def zone_name(zone: tzinfo) -> str:
    """Return the name of a time zone as `parse_timezone` reads it."""
    return getattr(zone, "key", None) or str(zone).removeprefix("UTC") or "UTC"
