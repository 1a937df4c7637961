"""Samples of the host, thinned as they grow: after every two thousand kept, every second one goes."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from anygpu.store.sampling import evenly
from anygpu.store.sql.attempts import Attempt, from_text, to_text
from anygpu.store.sql.statements import rows, run

KEPT = 2000


def store(connection: Connection, attempt: Attempt, samples: Sequence[Mapping[str, Any]]) -> None:
    for sample in samples:
        attempt.telemetry = to_text(sample)
        attempt.telemetry_seen += 1
        if attempt.telemetry_seen % attempt.telemetry_stride == 0:
            sql = "INSERT INTO telemetry (attempt_id, number, data) VALUES (?, ?, ?)"
            run(connection, sql, (attempt.id, attempt.telemetry_seen, attempt.telemetry))
    if attempt.telemetry_seen // attempt.telemetry_stride > KEPT:
        attempt.telemetry_stride *= 2
        sql = "DELETE FROM telemetry WHERE attempt_id = ? AND number % ? <> 0"
        run(connection, sql, (attempt.id, attempt.telemetry_stride))


def read(connection: Connection, attempt: Attempt, most: int) -> list[dict[str, Any]]:
    sql = "SELECT number, data FROM telemetry WHERE attempt_id = ? ORDER BY number"
    found = rows(connection, sql, (attempt.id,))
    texts = [data for _, data in found]
    if attempt.telemetry_seen and (not found or found[-1][0] != attempt.telemetry_seen):
        texts.append(attempt.telemetry)
    return [from_text(text) for text in evenly(texts, most)]
