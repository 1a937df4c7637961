"""Sums of costs by day, person, backend, GPU or tag, computed in the database from the table `costs`.

Entries that lie completely in one day (or in the whole range, if days do not matter) are added up in SQL. The few
entries that cross a limit are split in proportion to the time, and so are the given entries of running attempts.
"""

# ruff: noqa: S608 - statements are built from constants; every value is a parameter

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from sqlalchemy import Connection

from anygpu.events.costs import CostEntry
from anygpu.store.calendar import DayFinder, DayRange, Stretch
from anygpu.store.scope import Scope
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import Row, fetch_all, fetch_one, placeholders
from anygpu.store.sql.jobs import find_project

JOBS_PER_READ = 500
NO_DAY = -1
_DIMENSIONS = {"": "''", "person": "person", "backend": "backend", "gpu": "gpu_kind", "tag": "tags"}
_SUMS = (
    "SUM(cost_microusd), SUM(ended_at_ms - started_at_ms), SUM((ended_at_ms - started_at_ms) * gpu_count),"
    " SUM(cost_microusd * interruptible), SUM(saved_microusd), SUM(lost_s), SUM(lost_microusd),"
    " SUM(interrupted), COUNT(DISTINCT job_id)"
)


@dataclass(slots=True)
class CostSums:
    """Sums over cost entries. Times are those of machines, and of their GPUs."""

    microusd: int = 0
    machine_ms: int = 0
    gpu_ms: int = 0
    spot_microusd: int = 0  # on interruptible machines
    saved_microusd: int = 0  # against the on-demand prices of these machines
    lost_s: float = 0.0
    lost_microusd: int = 0
    interruptions: int = 0
    jobs: int = 0

    def add(self, other: "CostSums") -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


class Bucket(NamedTuple):
    """A day (`NO_DAY` if days do not matter) and a person, backend, GPU or list of tags."""

    day: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Sums of a range of days: by group, by day and group if requested, and in total.

    A job with several tags counts for each of them.
    """

    groups: Mapping[str, CostSums]
    total: CostSums
    daily: Mapping[Bucket, int] = field(default_factory=dict)  # costs in micro-dollars
    daily_total: Mapping[int, int] = field(default_factory=dict)  # the same of all groups, by day


class Costs:
    """Reads sums of the costs of a project.

    `running` are entries of attempts that are not released yet; those that are released meanwhile are left out.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def report(
        self,
        scope: Scope,
        days: DayRange,
        by: str,
        running: Sequence[CostEntry] = (),
        *,
        daily: bool = False,
    ) -> CostReport:
        """Return sums by `day`, `person`, `backend`, `gpu` or `tag`; days are numbers of days since 1970.

        With `daily`, the cost of each group on each day is also returned.
        """

        def work(connection: Connection) -> CostReport:
            project = find_project(connection, scope)
            query = _CostQuery(connection, -1 if project is None else project, days, running)
            total = query.sums("", by_day=False).get(Bucket(NO_DAY, ""), CostSums())
            if by == "day":
                found = query.sums("", by_day=True)
                return CostReport(groups={str(each.day): sums for each, sums in found.items()}, total=total)
            split = query.sums(by, by_day=True) if daily else {}
            return CostReport(
                groups=_by_key(query.sums(by, by_day=False), by),
                total=total,
                daily=_daily_costs(split, by),
                daily_total=_daily_totals(split),
            )

        return await self._database.read(work)

    async def total(self, scope: Scope, days: DayRange, running: Sequence[CostEntry] = ()) -> CostSums:
        def work(connection: Connection) -> CostSums:
            project = find_project(connection, scope)
            query = _CostQuery(connection, -1 if project is None else project, days, running)
            return query.sums("", by_day=False).get(Bucket(NO_DAY, ""), CostSums())

        return await self._database.read(work)

    async def first_ms(self, scope: Scope) -> int | None:
        """Return when the first machine of the project ended; None if none has."""

        def work(connection: Connection) -> int | None:
            project = find_project(connection, scope)
            sql = "SELECT min(ended_at_ms) FROM costs WHERE project_id = ?"
            row = None if project is None else fetch_one(connection, sql, (project,))
            return None if row is None or row[0] is None else int(row[0])

        return await self._database.read(work)


class _TimedCost(NamedTuple):
    """The fields of a cost entry that are summed, and its key in the requested grouping."""

    job_id: str
    attempt: int
    part: int
    started_at_ms: int
    ended_at_ms: int
    cost_microusd: int
    saved_microusd: int
    gpu_count: int
    interruptible: int
    interrupted: int
    lost_s: float
    lost_microusd: int
    key: str

    @classmethod
    def of(cls, entry: CostEntry, dimension: str) -> "_TimedCost":
        keys = {"": "", "person": entry.person, "backend": entry.backend, "gpu": entry.gpu_kind}
        key = json.dumps(entry.tags) if dimension == "tag" else keys[dimension]
        return cls._make([*(getattr(entry, name) for name in cls._fields[:-1]), key])

    def sums_within(self, from_ms: int, to_ms: int) -> list[float]:
        """Return the share in a range of time, in the order of `CostSums`. Lost work counts where the entry ends."""
        begin_ms, end_ms = max(from_ms, self.started_at_ms), min(to_ms, self.ended_at_ms)
        cost = self._share(self.cost_microusd, begin_ms, end_ms)
        saved = self._share(self.saved_microusd, begin_ms, end_ms) if self.saved_microusd else 0
        machine_ms, ends_here = end_ms - begin_ms, end_ms == self.ended_at_ms
        lost = (self.lost_s, self.lost_microusd, self.interrupted) if ends_here else (0.0, 0, 0)
        return [cost, machine_ms, machine_ms * self.gpu_count, cost * self.interruptible, saved, *lost]

    def _share(self, amount: int, begin_ms: int, end_ms: int) -> int:
        """Return the amount in proportion to the time. The shares of adjacent times add up to the amount exactly."""
        whole_ms = self.ended_at_ms - self.started_at_ms
        until_end = amount * (end_ms - self.started_at_ms) // whole_ms
        return until_end - amount * (begin_ms - self.started_at_ms) // whole_ms


_Part = tuple[_TimedCost, Bucket, int, int]  # from and to, in Unix milliseconds


class _CostQuery:
    """Sums over a range of days, in one transaction."""

    def __init__(
        self, connection: Connection, project: int, days: DayRange, running: Sequence[CostEntry]
    ) -> None:
        self._connection, self._project, self._days = connection, project, days
        recorded = self._recorded_attempts(sorted({entry.job_id for entry in running}))
        self._running = [entry for entry in running if (entry.job_id, entry.attempt) not in recorded]

    def _recorded_attempts(self, job_ids: Sequence[str]) -> set[tuple[str, int]]:
        """Return the attempts of these jobs that have entries, because they were released in the meantime."""
        found: set[tuple[str, int]] = set()
        for start in range(0, len(job_ids), JOBS_PER_READ):
            part = job_ids[start : start + JOBS_PER_READ]
            sql = f"SELECT job_id, attempt FROM costs WHERE job_id IN ({placeholders(part)})"
            found.update((job_id, attempt) for job_id, attempt in fetch_all(self._connection, sql, part))
        return found

    def sums(self, dimension: str, *, by_day: bool) -> dict[Bucket, CostSums]:
        stretches = list(self._days.stretches()) if by_day else [self._whole_range()]
        found: dict[Bucket, list[float]] = {}
        jobs: Counter[Bucket] = Counter()
        crossing: set[_TimedCost] = set()
        for stretch in stretches:
            for bucket, row in self._sums_inside(dimension, stretch, by_day=by_day):
                _add(found, bucket, row[:-1])
                jobs[bucket] += int(row[-1])
            crossing.update(self._crossing_entries(dimension, stretch, by_day=by_day))
        parts = list(self._parts([*crossing, *self._running_costs(dimension)], by_day=by_day))
        for entry, bucket, begin_ms, end_ms in parts:
            _add(found, bucket, entry.sums_within(begin_ms, end_ms))
        jobs.update(self._additional_jobs(parts, dimension, stretches, by_day=by_day))
        return {bucket: _to_sums(values, jobs[bucket]) for bucket, values in found.items()}

    def _whole_range(self) -> Stretch:
        return Stretch(self._days.from_ms, self._days.to_ms, 0)

    def _running_costs(self, dimension: str) -> Iterator[_TimedCost]:
        return (_TimedCost.of(entry, dimension) for entry in self._running)

    def _sums_inside(self, dimension: str, stretch: Stretch, *, by_day: bool) -> Iterator[tuple[Bucket, Row]]:
        """Yield the sums of the entries that lie in one day, or in the whole range, by day and key."""
        day, inside, values = _inside(stretch, by_day=by_day)
        sql = (
            f"SELECT {day}, {_DIMENSIONS[dimension]}, {_SUMS} FROM costs"
            f" WHERE project_id = ? AND {inside} GROUP BY 1, 2"
        )
        for row in fetch_all(self._connection, sql, (*_day_values(stretch, day), self._project, *values)):
            yield Bucket(int(row[0]), row[1]), row[2:]

    def _crossing_entries(self, dimension: str, stretch: Stretch, *, by_day: bool) -> Iterator[_TimedCost]:
        """Yield the entries that begin or end outside of the stretch, or that contain a midnight."""
        _, inside, values = _inside(stretch, by_day=by_day)
        sql = (
            f"SELECT {', '.join(_TimedCost._fields[:-1])}, {_DIMENSIONS[dimension]} FROM costs"
            f" WHERE project_id = ? AND ended_at_ms > ? AND started_at_ms < ? AND NOT ({inside})"
        )
        parameters = (self._project, stretch.from_ms, stretch.to_ms, *values)
        return (_TimedCost(*row) for row in fetch_all(self._connection, sql, parameters))

    def _parts(self, entries: Iterable[_TimedCost], *, by_day: bool) -> Iterator[_Part]:
        """Split entries at midnight, or at the limits of the whole range."""
        finder = DayFinder(self._days) if by_day else None
        whole = self._whole_range()
        for entry in entries:
            if finder is not None:
                for day, begin_ms, end_ms in finder.parts(entry.started_at_ms, entry.ended_at_ms):
                    yield entry, Bucket(day, entry.key), begin_ms, end_ms
            elif entry.ended_at_ms > whole.from_ms and entry.started_at_ms < whole.to_ms:
                yield entry, Bucket(NO_DAY, entry.key), whole.from_ms, whole.to_ms

    def _additional_jobs(
        self, parts: Sequence[_Part], dimension: str, stretches: Sequence[Stretch], *, by_day: bool
    ) -> Iterator[Bucket]:
        """Yield the bucket of each job with a split entry, unless SQL has counted the job in the same bucket."""
        added = {(bucket, entry.job_id) for entry, bucket, _, _ in parts}
        job_ids = sorted({job_id for _, job_id in added})
        for stretch in stretches if job_ids else ():
            added.difference_update(self._counted_jobs(dimension, stretch, job_ids, by_day=by_day))
        return (bucket for bucket, _ in added)

    def _counted_jobs(
        self, dimension: str, stretch: Stretch, job_ids: Sequence[str], *, by_day: bool
    ) -> Iterator[tuple[Bucket, str]]:
        day, inside, values = _inside(stretch, by_day=by_day)
        for start in range(0, len(job_ids), JOBS_PER_READ):
            part = job_ids[start : start + JOBS_PER_READ]
            # The plus sign keeps SQLite from using the index of times: jobs are few, times are many.
            sql = (
                f"SELECT {day}, {_DIMENSIONS[dimension]}, job_id FROM costs WHERE +project_id = ?"
                f" AND {inside} AND job_id IN ({placeholders(part)})"
            )
            parameters = (*_day_values(stretch, day), self._project, *values, *part)
            for number, key, job_id in fetch_all(self._connection, sql, parameters):
                yield Bucket(int(number), key), job_id


_DAY = "(started_at_ms + ?) / 86400000"
_LAST_DAY = "(ended_at_ms - 1 + ?) / 86400000"


def _inside(stretch: Stretch, *, by_day: bool) -> tuple[str, str, tuple[int, ...]]:
    """Return the SQL for the day of an entry, the condition for entries that need not be split, and its values."""
    inside = "ended_at_ms > ? AND ended_at_ms <= ? AND started_at_ms >= ?"
    values = (stretch.from_ms, stretch.to_ms, stretch.from_ms)
    if not by_day:
        return str(NO_DAY), inside, values
    return _DAY, f"{inside} AND {_DAY} = {_LAST_DAY}", (*values, stretch.offset_ms, stretch.offset_ms)


def _day_values(stretch: Stretch, day: str) -> tuple[int, ...]:
    return (stretch.offset_ms,) if "?" in day else ()


def _add(found: dict[Bucket, list[float]], bucket: Bucket, values: Sequence[float]) -> None:
    known = found.get(bucket)
    if known is None:
        found[bucket] = list(values)
        return
    for index, value in enumerate(values):
        known[index] += value


def _to_sums(values: Sequence[float], jobs: int) -> CostSums:
    cost, machine, gpu, spot, saved, lost_s, lost, interruptions = values
    return CostSums(
        microusd=int(cost),
        machine_ms=int(machine),
        gpu_ms=int(gpu),
        spot_microusd=int(spot),
        saved_microusd=int(saved),
        lost_s=float(lost_s),
        lost_microusd=int(lost),
        interruptions=int(interruptions),
        jobs=jobs,
    )


def _by_key(found: Mapping[Bucket, CostSums], by: str) -> dict[str, CostSums]:
    groups: dict[str, CostSums] = {}
    for bucket, sums in found.items():
        for key in _group_keys(bucket.key, by):
            groups.setdefault(key, CostSums()).add(sums)
    return groups


def _daily_costs(found: Mapping[Bucket, CostSums], by: str) -> dict[Bucket, int]:
    costs: dict[Bucket, int] = {}
    for bucket, sums in found.items():
        for key in _group_keys(bucket.key, by):
            costs[Bucket(bucket.day, key)] = costs.get(Bucket(bucket.day, key), 0) + sums.microusd
    return costs


def _daily_totals(found: Mapping[Bucket, CostSums]) -> dict[int, int]:
    totals: dict[int, int] = {}
    for bucket, sums in found.items():
        totals[bucket.day] = totals.get(bucket.day, 0) + sums.microusd
    return totals


def _group_keys(key: str, by: str) -> list[str]:
    """Return the groups of a key of the table: each of several tags is a group, and no tag is one too."""
    return list(dict.fromkeys(json.loads(key))) or [""] if by == "tag" else [key]
