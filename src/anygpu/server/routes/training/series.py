"""Routes for charts: metrics of all attempts of a job, and telemetry of its machines."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query

from anygpu.api.series import MetricsHistory, MetricsOverview, TelemetryHistory
from anygpu.bounds import MAX_INTEGER, MAX_NAME_LENGTH
from anygpu.events.view import AttemptView, JobView
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.route import api_router
from anygpu.server.jobs.resolve import require_node, resolve_job
from anygpu.server.jobs.telemetry import telemetry_series
from anygpu.server.routes.training.jobs import JobRef
from anygpu.server.routes.training.reports import AttemptNumber, NodeNumber, attempt_number
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.store.reports import MetricSamples, SeriesSummary, report_number

K = TypeVar("K")
T = TypeVar("T")
router = api_router("/api/v1/training/{ref}", tag="results")

MAX_NAMES = 50
MAX_POINTS_PER_ANSWER = 200_000
MIN_POINTS_PER_ATTEMPT = 100
MAX_SAMPLES_PER_ANSWER = 8000  # of telemetry
CLOCK_TOLERANCE_MS = 3_600_000  # a machine's clock may differ from the server's
CONCURRENT_READS = 4  # of one request; the other readers of the database are for other requests

MetricNames = Annotated[
    list[Annotated[str, Query(min_length=1, max_length=MAX_NAME_LENGTH)]],
    Query(min_length=1, max_length=MAX_NAMES, examples=[["loss"]]),
]
Step = Annotated[int | None, Query(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Milliseconds = Annotated[int | None, Query(ge=0, le=MAX_INTEGER)]


# Points and summaries are rendered straight to JSON; the models are for the OpenAPI document.
@router.get(
    "/metrics/summary", response_model=MetricsOverview, response_description="All metrics, without points."
)
async def get_metrics_summary(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """List the metrics of all attempts with their extremes and last values. No points are read."""
    view = await resolve_job(services.journal, caller.scope, ref)
    newest = len(view.attempts)
    state = await services.reports.state(view.id, newest)
    numbers = range(1, newest + 1)
    series = await _read_each(numbers, lambda number: services.reports.series(view.id, number))
    by_attempt = dict(zip(numbers, series, strict=True))
    cursor = state.marks.metric_points
    return JsonResponse({"attempt": newest, "cursor": cursor, "metrics": merge_summaries(by_attempt)})


def merge_summaries(by_attempt: Mapping[int, Sequence[SeriesSummary]]) -> list[dict[str, Any]]:
    """Return one summary per metric from those of the attempts, as `MetricSummary`, sorted by name."""
    merged: dict[str, dict[str, Any]] = {}
    for number in sorted(by_attempt):
        for one in by_attempt[number]:
            before = merged.get(one.name)
            merged[one.name] = {
                "name": one.name,
                "count": one.count + (before["count"] if before else 0),
                "min": _extreme(min, before["min"] if before else one.min, one.min),
                "max": _extreme(max, before["max"] if before else one.max, one.max),
                "last": one.last,
                "last_step": one.last_step,
                "attempts": [*(before["attempts"] if before else ()), number],
            }
    return [merged[name] for name in sorted(merged)]


def _extreme(choose: Any, first: float, second: float) -> float:
    """Return the smaller or larger of two numbers; NaN only if both are NaN."""
    numbers = [value for value in (first, second) if value == value]
    extreme: float = choose(numbers) if numbers else first
    return extreme


@router.get("/metrics/history", response_model=MetricsHistory, response_description="Points by attempt.")
async def get_metrics_history(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    name: MetricNames,
    attempt: AttemptNumber = None,
    points: Annotated[int, Query(ge=4, le=20_000)] = 1000,
    from_step: Step = None,
    to_step: Step = None,
) -> JsonResponse:
    """Read points of the named metrics in all attempts, or in one. Minimum, maximum and NaN of each part are kept.

    Without a range of steps, a metric has about `points` points over all attempts; with a range, in each attempt.
    There are fewer if the answer would have more than 200,000 points.
    """
    view = await resolve_job(services.journal, caller.scope, ref)
    names = list(dict.fromkeys(name))
    requested = _attempt_numbers(view, attempt)
    states = await services.reports.states([(view.id, number) for number in requested])
    reported = {number: states[view.id, number].marks.metric_points for number in requested}
    numbers = [number for number in requested if reported[number]]
    shares = point_shares(
        [reported[number] for number in numbers],
        points,
        limit=MAX_POINTS_PER_ANSWER // len(names),
        zoomed=from_step is not None or to_step is not None,
    )

    async def read(share: tuple[int, int]) -> MetricSamples:
        number, max_count = share
        return await services.reports.samples(
            view.id, number, names, max_count=max_count, from_step=from_step, to_step=to_step
        )

    attempts = []
    found = await _read_each([*zip(numbers, shares, strict=True)], read)
    for number, samples in zip(numbers, found, strict=True):
        columns = [_columns(each, samples) for each in names if each in samples.points]
        if columns:
            attempts.append({"attempt": number, "cursor": samples.cursor, "series": columns})
    return JsonResponse({"attempts": attempts})


async def _read_each(keys: Sequence[K], read: Callable[[K], Awaitable[T]]) -> list[T]:
    """Return what `read` returns for each key, in order. A few reads wait for the database at the same time."""
    slots = asyncio.Semaphore(CONCURRENT_READS)

    async def read_one(key: K) -> T:
        async with slots:
            return await read(key)

    return await asyncio.gather(*(read_one(key) for key in keys))


def _attempt_numbers(view: JobView, requested: int | None) -> list[int]:
    return [*range(1, len(view.attempts) + 1)] if requested is None else [attempt_number(view, requested)]


def point_shares(reported: Sequence[int], points: int, *, limit: int, zoomed: bool) -> list[int]:
    """Return how many points of a metric each attempt gets, in proportion to how many it has reported.

    With a range of steps (`zoomed`), each attempt gets all `points`. If that is more than `limit` over all attempts,
    all get fewer.
    """
    total = sum(reported)
    least = points if zoomed else min(points, MIN_POINTS_PER_ATTEMPT)
    shares = [max(least, points * count // total) for count in reported]
    shared = sum(shares)
    return shares if shared <= limit else [max(1, share * limit // shared) for share in shares]


def _columns(name: str, samples: MetricSamples) -> dict[str, Any]:
    points = samples.points[name]
    return {
        "name": name,
        "count": samples.counts[name],
        "steps": [point.step for point in points],
        "times": [round(point.at, 3) for point in points],
        "values": [point.value for point in points],
    }


@router.get("/telemetry", response_model=TelemetryHistory, response_description="Series by attempt.")
async def get_telemetry(
    ref: JobRef,
    services: ServicesDep,
    caller: CallerDep,
    attempt: AttemptNumber = None,
    node: NodeNumber = 0,
    points: Annotated[int, Query(ge=4, le=2000)] = 300,
    from_ms: Milliseconds = None,
    to_ms: Milliseconds = None,
) -> JsonResponse:
    """Read the stored use of GPUs, CPU, memory, disk and network in all attempts, or in one. Extremes are kept."""
    view = await resolve_job(services.journal, caller.scope, ref)
    require_node(view, node)
    requested = [view.attempts[number - 1] for number in _attempt_numbers(view, attempt)]
    numbers = [each.number for each in attempts_between(requested, from_ms, to_ms)]
    most = max(MIN_POINTS_PER_ATTEMPT, MAX_SAMPLES_PER_ANSWER // max(1, len(numbers)))
    from_s = None if from_ms is None else from_ms / 1000
    to_s = None if to_ms is None else to_ms / 1000

    async def read(number: int) -> Sequence[Mapping[str, Any]]:
        return await services.reports.telemetry(
            view.id, report_number(number, node), max_count=most, from_s=from_s, to_s=to_s
        )

    attempts = []
    for number, samples in zip(numbers, await _read_each(numbers, read), strict=True):
        series = telemetry_series(samples, max_count=points)
        if series:
            attempts.append({"attempt": number, "series": series})
    return JsonResponse({"attempts": attempts})


def attempts_between(
    attempts: Iterable[AttemptView], from_ms: int | None, to_ms: int | None
) -> list[AttemptView]:
    """Return the attempts that may have telemetry of a time by the clocks of their machines."""
    low = 0 if from_ms is None else from_ms - CLOCK_TOLERANCE_MS
    high = MAX_INTEGER if to_ms is None else to_ms + CLOCK_TOLERANCE_MS
    return [
        each
        for each in attempts
        if each.launching_at_ms <= high and (each.ended_at_ms is None or each.ended_at_ms >= low)
    ]
