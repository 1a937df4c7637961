"""Outcomes of completed jobs: actual and predicted time and cost, computed from the journal."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from anygpu.events.facts import Prediction
from anygpu.store.scope import Scope
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import Row, execute, fetch_all, fetch_one

MAX_ROWS = 1_000  # upper limit for one query
CLOCK_SKEW_MS = 3_600_000  # if clocks of control processes differ by more than this, an outcome may be missed

_COLUMNS = (
    "job_id, organisation, project, fingerprint, backend, gpu_kind, gpu_count, attempts, length, steps, step_s,"
    " training_s, wall_s, cost_microusd, ended_at_ms, predicted, calibrated"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """Actual and predicted time and cost of a completed job.

    `predicted` was made before the job ran; `calibrated` is the first prediction from the measured times of its steps.
    """

    job_id: str
    organisation: str
    project: str
    fingerprint: str
    backend: str
    gpu_kind: str
    gpu_count: int
    attempts: int
    length: str  # requested epochs, steps or rounds
    steps: int | None
    step_s: float | None
    training_s: float  # sum over all attempts
    wall_s: float  # from the first launch to the end
    cost_microusd: int
    ended_at_ms: int
    predicted: Prediction | None = None
    calibrated: Prediction | None = None


class Outcomes:
    """Stores one outcome per job. Queries return the newest first, at most MAX_ROWS."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, outcome: JobOutcome) -> None:
        """Store an outcome. If the job already has an outcome, the old one is kept."""
        sql = f"INSERT INTO outcomes ({_COLUMNS}) VALUES ({', '.join('?' * 17)}) ON CONFLICT DO NOTHING"  # noqa: S608
        await self._database.write(lambda connection: execute(connection, sql, _to_row(outcome)))

    async def for_fingerprint(
        self, organisation: str, fingerprint: str, *, limit: int = 20
    ) -> Sequence[JobOutcome]:
        """Return the outcomes of the organisation's jobs with this fingerprint that needed only one attempt.

        The fingerprint is a hash that is equal for jobs whose steps take equally long.
        """
        where = "organisation = ? AND fingerprint = ? AND attempts = 1"
        return await self._select_newest(
            where, (storable_text(organisation), storable_text(fingerprint)), limit
        )

    async def for_organisation(self, organisation: str, *, limit: int = MAX_ROWS) -> Sequence[JobOutcome]:
        """Return the outcomes of those jobs of the organisation for which a prediction was made."""
        where = "organisation = ? AND (predicted IS NOT NULL OR calibrated IS NOT NULL)"
        return await self._select_newest(where, (storable_text(organisation),), limit)

    async def for_project(self, scope: Scope, from_ms: int, to_ms: int) -> Sequence[JobOutcome]:
        """Return the outcomes of predicted jobs of a project that ended in a range of time."""
        where = (
            "organisation = ? AND project = ? AND ended_at_ms >= ? AND ended_at_ms < ?"
            " AND (predicted IS NOT NULL OR calibrated IS NOT NULL)"
        )
        values = (storable_text(scope.organisation), storable_text(scope.project), from_ms, to_ms)
        return await self._select_newest(where, values, MAX_ROWS)

    async def jobs_without_outcome(self, *, limit: int) -> Sequence[str]:
        """Return the ids of completed jobs that have no outcome yet, in the order in which the jobs ended."""
        sql = (
            "SELECT j.id FROM jobs j WHERE j.status = 'completed' AND j.ended_at_ms >= ?"
            " AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.job_id = j.id)"
            " ORDER BY j.ended_at_ms LIMIT ?"
        )
        newest = "SELECT max(ended_at_ms) FROM outcomes"

        def work(connection: Connection) -> list[str]:
            last = fetch_one(connection, newest)
            since_ms = last[0] - CLOCK_SKEW_MS if last and last[0] is not None else 0
            return [row[0] for row in fetch_all(connection, sql, (since_ms, min(limit, MAX_ROWS)))]

        return await self._database.read(work)

    async def _select_newest(self, where: str, values: Sequence[object], limit: int) -> list[JobOutcome]:
        sql = f"SELECT {_COLUMNS} FROM outcomes WHERE {where} ORDER BY ended_at_ms DESC, job_id LIMIT ?"  # noqa: S608
        values = (*values, max(0, min(limit, MAX_ROWS)))
        return [_from_row(row) for row in await self._database.read(lambda c: fetch_all(c, sql, values))]


def _to_row(outcome: JobOutcome) -> Row:
    return (
        outcome.job_id,
        outcome.organisation,
        outcome.project,
        outcome.fingerprint,
        outcome.backend,
        outcome.gpu_kind,
        outcome.gpu_count,
        outcome.attempts,
        outcome.length,
        outcome.steps,
        outcome.step_s,
        outcome.training_s,
        outcome.wall_s,
        outcome.cost_microusd,
        outcome.ended_at_ms,
        _to_json(outcome.predicted),
        _to_json(outcome.calibrated),
    )


def _from_row(row: Row) -> JobOutcome:
    names = [name.strip() for name in _COLUMNS.split(",")]
    fields = dict(zip(names, row, strict=True))
    predicted, calibrated = fields.pop("predicted"), fields.pop("calibrated")
    return JobOutcome(**fields, predicted=_from_json(predicted), calibrated=_from_json(calibrated))


def _to_json(prediction: Prediction | None) -> str | None:
    return None if prediction is None else json.dumps(asdict(prediction))


def _from_json(text: str | None) -> Prediction | None:
    return None if text is None else Prediction(**json.loads(text))
