"""Outcomes: what completed jobs took and cost, beside what was predicted. Derived from the journal, to learn from."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection

from anygpu.events.facts import Prediction
from anygpu.store.search import storable_text
from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import Row, execute, fetch_all, fetch_one

MAX_ROWS = 1_000  # rows of one answer, however many are asked for
CLOCK_SKEW_MS = 3_600_000  # control processes whose clocks differ by more than this may leave an outcome out

_COLUMNS = (
    "job_id, organisation, project, fingerprint, backend, gpu_kind, gpu_count, attempts, length, steps, step_s,"
    " training_s, wall_s, cost_microusd, ended_at_ms, predicted, calibrated"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """A completed job in figures. `calibrated` is the first prediction that rested on its own first steps."""

    job_id: str
    organisation: str
    project: str
    fingerprint: str
    backend: str
    gpu_kind: str
    gpu_count: int
    attempts: int
    length: str  # what it asked for of epochs, steps or rounds
    steps: int | None
    step_s: float | None
    training_s: float  # of all its attempts
    wall_s: float  # from its first launch to its end
    cost_microusd: int
    ended_at_ms: int
    predicted: Prediction | None = None
    calibrated: Prediction | None = None


class Outcomes:
    """Written once a job; read newest first, never more than a bounded number."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, outcome: JobOutcome) -> None:
        """The first one stays: deriving it again changes nothing."""
        sql = f"INSERT INTO outcomes ({_COLUMNS}) VALUES ({', '.join('?' * 17)}) ON CONFLICT DO NOTHING"  # noqa: S608
        await self._database.write(lambda connection: execute(connection, sql, _to_row(outcome)))

    async def for_fingerprint(
        self, organisation: str, fingerprint: str, *, limit: int = 20
    ) -> Sequence[JobOutcome]:
        """Past runs of one workload, anywhere in the organisation, that nothing interrupted."""
        where = "organisation = ? AND fingerprint = ? AND attempts = 1"
        return await self._select_newest(
            where, (storable_text(organisation), storable_text(fingerprint)), limit
        )

    async def for_organisation(self, organisation: str, *, limit: int = MAX_ROWS) -> Sequence[JobOutcome]:
        """Of jobs something was predicted of."""
        where = "organisation = ? AND (predicted IS NOT NULL OR calibrated IS NOT NULL)"
        return await self._select_newest(where, (storable_text(organisation),), limit)

    async def jobs_without_outcome(self, *, limit: int) -> Sequence[str]:
        """Completed jobs without an outcome, the first that ended first: what is left to be written."""
        sql = (
            "SELECT j.id FROM jobs j WHERE j.status = 'completed' AND j.ended_at_ms >= ?"
            " AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.job_id = j.id)"
            " ORDER BY j.ended_at_ms LIMIT ?"
        )
        newest = "SELECT max(ended_at_ms) FROM outcomes"

        def work(connection: Connection) -> list[str]:
            known = fetch_one(connection, newest)
            since_ms = known[0] - CLOCK_SKEW_MS if known and known[0] is not None else 0
            return [found[0] for found in fetch_all(connection, sql, (since_ms, min(limit, MAX_ROWS)))]

        return await self._database.read(work)

    async def _select_newest(self, where: str, values: Sequence[object], limit: int) -> list[JobOutcome]:
        sql = f"SELECT {_COLUMNS} FROM outcomes WHERE {where} ORDER BY ended_at_ms DESC, job_id LIMIT ?"  # noqa: S608
        asked = (*values, max(0, min(limit, MAX_ROWS)))
        return [_from_row(each) for each in await self._database.read(lambda c: fetch_all(c, sql, asked))]


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


def _from_row(found: Row) -> JobOutcome:
    names = [name.strip() for name in _COLUMNS.split(",")]
    fields = dict(zip(names, found, strict=True))
    predicted, calibrated = fields.pop("predicted"), fields.pop("calibrated")
    return JobOutcome(**fields, predicted=_from_json(predicted), calibrated=_from_json(calibrated))


def _to_json(prediction: Prediction | None) -> str | None:
    return None if prediction is None else json.dumps(asdict(prediction))


def _from_json(text: str | None) -> Prediction | None:
    return None if text is None else Prediction(**json.loads(text))
