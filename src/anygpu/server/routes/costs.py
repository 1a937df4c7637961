"""Routes for costs: sums of the project, the current month, and what a workload would cost at other providers."""

from collections.abc import Iterator
from datetime import date, timedelta, tzinfo
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from starlette.responses import Response

from anygpu.api.costs import (
    ComparisonRequest,
    CostFigures,
    CostSummary,
    CostTable,
    Grouping,
    ProviderComparison,
)
from anygpu.errors import InvalidSpec, Problem
from anygpu.events.offers import HOUR_S, MICROUSD
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.csv import csv_response
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.training.jobs import parse_spec
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.store.calendar import DayRange, parse_timezone

router = api_router("/api/v1/costs", tag="costs")

FIRST_DAY, LAST_DAY = date(1971, 1, 1), date(9000, 1, 1)
MAX_DAYS = 4000
MAX_DAILY_DAYS = 400
MAX_GROUPS = 10_000
FIGURES = (
    "cost_usd",
    "machine_hours",
    "gpu_hours",
    "jobs",
    "spot_usd",
    "saved_usd",
    "lost_usd",
    "lost_hours",
)
CSV_MEDIA_TYPE = "text/csv"

_CSV: dict[int | str, dict[str, Any]] = {
    200: {"description": "The sums.", "content": {CSV_MEDIA_TYPE: {"schema": {"type": "string"}}}}
}


def _parse_zone(
    timezone: Annotated[
        str,
        Query(
            max_length=64,
            examples=["Europe/Berlin"],
            description="The time zone of the days: a name, or an offset from UTC such as `+02:00`.",
        ),
    ] = "UTC",
) -> tzinfo:
    zone = parse_timezone(timezone)
    if zone is None:
        raise _invalid(
            "timezone", timezone, "is not a time zone; write a name such as Europe/Berlin, or +02:00"
        )
    return zone


def _invalid(place: str, value: Any, message: str) -> InvalidSpec:
    return InvalidSpec([Problem(place, value, message, source="query")])


Zone = Annotated[tzinfo, Depends(_parse_zone)]


@router.get("", response_model=CostTable, response_description="Costs by group.", responses=_CSV)
async def get_costs(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    zone: Zone,
    by: Grouping = "day",
    first: Annotated[
        date | None, Query(alias="from", description="First day; by default the first of this month.")
    ] = None,
    last: Annotated[date | None, Query(alias="to", description="Last day; by default today.")] = None,
    daily: Annotated[bool, Query(description="Also return the cost of each group on each day.")] = False,
    limit: Annotated[int, Query(ge=1, le=MAX_GROUPS, description="The other groups are added up.")] = 500,
    format: Literal["json", "csv"] | None = None,
) -> Response:
    """Add up the costs of the project by day, person, backend, GPU kind or tag. Running attempts count until now.

    An attempt that runs over midnight counts on both days, in proportion to the time. The costs of deleted jobs stay.
    Send `format=csv` or `Accept: text/csv` for a CSV file.
    """
    days = _day_range(services.costs.today(zone), first, last, zone)
    if daily and len(days.days) > MAX_DAILY_DAYS:
        raise _invalid("daily", True, f"covers at most {MAX_DAILY_DAYS} days; choose a shorter range")
    table = await services.costs.table(caller.scope, days, by, daily=daily and by != "day", limit=limit)
    if format == "csv" or (format is None and CSV_MEDIA_TYPE in request.headers.get("accept", "")):
        name = f"costs-by-{by}-{table.first_day}-{table.last_day}.csv"
        return csv_response(name, _csv_rows(table))
    return JsonResponse(table)


def _day_range(today: date, first: date | None, last: date | None, zone: tzinfo) -> DayRange:
    last = last or max(today, first or today)
    first = first or min(last, today).replace(day=1)
    for name, day in (("from", first), ("to", last)):
        if not FIRST_DAY <= day <= LAST_DAY:
            raise _invalid(name, day.isoformat(), f"is not between {FIRST_DAY} and {LAST_DAY}")
    if first > last:
        raise _invalid("from", first.isoformat(), f"is after the last day, {last}; exchange the two")
    if last - first > timedelta(days=MAX_DAYS):
        raise _invalid("from", first.isoformat(), f"is more than {MAX_DAYS} days before the last day")
    return DayRange(first, last, zone)


def _csv_rows(table: CostTable) -> Iterator[tuple[object, ...]]:
    """Yield the heading and one row per group, or one per group and day for a daily table."""
    if table.days is not None:
        yield "day", table.by, "cost_usd"
        for group in table.groups:
            costs = zip(table.days, group.daily_microusd or (), strict=True)
            yield from ((day, group.key, _usd(cost)) for day, cost in costs)
        return
    yield table.by, *FIGURES, "interruptions"
    for group in table.groups:
        yield group.key, *_csv_figures(group)
    if table.rest is not None:
        yield f"{table.rest.groups} others", *_csv_figures(table.rest)
    yield "total", *_csv_figures(table.total)


def _csv_figures(sums: CostFigures) -> tuple[object, ...]:
    return (
        _usd(sums.microusd),
        _hours(sums.machine_s),
        _hours(sums.gpu_s),
        sums.jobs,
        _usd(sums.spot_microusd),
        _usd(sums.saved_microusd),
        _usd(sums.lost_microusd),
        _hours(sums.lost_s),
        sums.interruptions,
    )


def _usd(microusd: int) -> str:
    sign, size = "-" if microusd < 0 else "", abs(microusd)
    return f"{sign}{size // MICROUSD}.{size % MICROUSD:06d}"


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:.4f}"


@router.get("/summary", response_description="The month, and today.")
async def get_cost_summary(
    services: ServicesDep,
    caller: CallerDep,
    zone: Zone,
    month: Annotated[
        str | None, Query(pattern=r"^\d{4}-\d{2}$", examples=["2026-11"], description="Default: this month.")
    ] = None,
) -> CostSummary:
    """Show what a month and today have cost, what the whole month will probably cost, and how much spot machines saved.

    Also shows the cost of lost work, and how far predictions were from the results.
    """
    day = services.costs.today(zone) if month is None else _first_of_month(month)
    return await services.costs.summary(caller.scope, day, zone)


def _first_of_month(month: str) -> date:
    try:
        day = date.fromisoformat(f"{month}-01")
    except ValueError:
        raise _invalid("month", month, "is not a month; write it as 2026-11") from None
    if not FIRST_DAY <= day <= LAST_DAY:
        raise _invalid("month", month, f"is not between {FIRST_DAY} and {LAST_DAY}")
    return day


ComparisonBody = Annotated[ComparisonRequest, Depends(JsonBody(ComparisonRequest))]


@router.post("/compare", response_model=ProviderComparison, response_description="Providers, cheapest first.")
async def compare_costs(
    body: ComparisonBody,
    services: ServicesDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=1, le=100)] = 12,
) -> JsonResponse:
    """Compare what a whole workload would cost at each provider. Nothing is started.

    The workload is a spec with its code files, or a job of the project. Its requirements apply, but not the places,
    the budget and the deadline that it names. Interruptions are included in time and cost.
    """
    from anygpu.plan.offers.providers import provider_comparison

    if (body.job is None) == (body.spec is None):
        raise InvalidSpec([Problem("", None, "send either a spec or the id of a job", source="body")])
    if body.job is not None:
        view = await resolve_job(services.journal, caller.scope, body.job)
        name, spec = view.name or view.id, view.spec
    else:
        spec = await parse_spec(services, caller, body.spec, None)
        name = spec.name or ""
    comparison = await services.planner.compare_providers(spec, caller.scope.organisation, body.files or {})
    return JsonResponse({"name": name, **provider_comparison(comparison, limit=limit)})
