"""Store and read logs in chunks by offset. If a job exceeds its quota, bytes in the middle are dropped.

The first bytes of a job's logs, up to a quarter of the quota, are called the head and are never dropped.
"""

import zlib
from collections.abc import Iterator

from sqlalchemy import Connection

from anygpu.store.reports import LogPart, drop_order
from anygpu.store.sql.engine.statements import (
    Row,
    execute,
    execute_many,
    fetch_all,
    fetch_one,
    for_update_unless_locked,
)
from anygpu.store.sql.report_store.attempts import AttemptRecord

CHUNK_BYTES = 64 * 1024
SMALL_CHUNK_BYTES = CHUNK_BYTES // 4  # smaller chunks are merged later
MERGE_AT_CHUNKS = 64  # number of small chunks at which they are merged
MIN_COMPRESSED_BYTES = 256
ROWS_PER_READ = 32  # chunks per query

_RAW, _COMPRESSED = b"\0", b"\1"
_INSERT = "INSERT INTO log_chunks (attempt_id, start, size, data) VALUES (?, ?, ?, ?)"


def store(connection: Connection, attempt: AttemptRecord, data: bytes, quota_bytes: int) -> None:
    others = fetch_one(
        connection,
        "SELECT coalesce(sum(log_bytes), 0), coalesce(sum(log_stored), 0) FROM attempts"
        " WHERE job_id = ? AND id <> ?",
        (attempt.job_id, attempt.id),
    )
    ever, stored = (int(others[0]), int(others[1])) if others else (0, 0)
    head_room = max(0, quota_bytes // 4 - ever - attempt.log_bytes)
    chunk_bytes = min(CHUNK_BYTES, max(1, quota_bytes // 16))  # the quota drops whole chunks
    _append(connection, attempt, data[:head_room], chunk_bytes)
    attempt.log_head += len(data[:head_room])
    _append(connection, attempt, data[head_room:], chunk_bytes)
    if attempt.loose_logs >= MERGE_AT_CHUNKS:
        _merge_small_chunks(connection, attempt, chunk_bytes)
    excess = stored + attempt.log_stored - quota_bytes
    if excess > 0:
        _drop_excess(connection, attempt, excess)


def _append(connection: Connection, attempt: AttemptRecord, data: bytes, chunk_bytes: int) -> None:
    chunks = list(_split_chunks(attempt.id, attempt.log_bytes, data, chunk_bytes))
    if chunks:
        execute_many(connection, _INSERT, chunks)
    attempt.log_bytes += len(data)
    attempt.log_stored += len(data)
    attempt.loose_logs += sum(1 for chunk in chunks if chunk[2] < SMALL_CHUNK_BYTES)


def _split_chunks(attempt_id: int, start: int, data: bytes, chunk_bytes: int) -> Iterator[Row]:
    for offset in range(0, len(data), chunk_bytes):
        part = data[offset : offset + chunk_bytes]
        yield attempt_id, start + offset, len(part), _compress(part)


def _merge_small_chunks(connection: Connection, attempt: AttemptRecord, chunk_bytes: int) -> None:
    """Merge adjacent small chunks into large ones.

    Chunks of the head, which are never dropped, are not merged with later chunks.
    """
    sql = "SELECT start, size, data FROM log_chunks WHERE attempt_id = ? AND start >= ? ORDER BY start"
    runs: list[tuple[int, bytearray]] = []
    for start, _, data in fetch_all(connection, sql, (attempt.id, attempt.log_joined)):
        if not runs or runs[-1][0] + len(runs[-1][1]) != start or start == attempt.log_head:
            runs.append((start, bytearray()))
        runs[-1][1].extend(_decompress(data))
    execute(
        connection,
        "DELETE FROM log_chunks WHERE attempt_id = ? AND start >= ?",
        (attempt.id, attempt.log_joined),
    )
    chunks = [
        chunk for start, data in runs for chunk in _split_chunks(attempt.id, start, bytes(data), chunk_bytes)
    ]
    execute_many(connection, _INSERT, chunks)
    attempt.log_joined, attempt.loose_logs = attempt.log_bytes, 0


def _drop_excess(connection: Connection, attempt: AttemptRecord, excess: int) -> None:
    """Delete at least `excess` bytes of the job's logs, if there are so many behind their heads (first bytes).

    If another node stores a report at the same time, its log may not change here, and waiting for it could end in a
    deadlock. The next report of the job then deletes the rest.
    """
    for attempt_id in _logs_in_drop_order(connection, attempt):
        is_current = attempt_id == attempt.id
        head = attempt.log_head if is_current else _lock_unless_locked(connection, attempt_id)
        if head is None:
            return
        freed, kept_from = _drop_oldest(connection, attempt_id, head, excess)
        if freed:
            marks = "DELETE FROM log_marks WHERE attempt_id = ? AND start >= ? AND start < ?"
            execute(connection, marks, (attempt_id, head, kept_from))
        if is_current:
            attempt.log_stored -= freed
            attempt.log_kept_from = max(attempt.log_kept_from, kept_from)
        elif freed:
            update = "UPDATE attempts SET log_stored = log_stored - ?, log_kept_from = ? WHERE id = ?"
            execute(connection, update, (freed, kept_from, attempt_id))
        excess -= freed
        if excess <= 0:
            return


def _logs_in_drop_order(connection: Connection, attempt: AttemptRecord) -> list[int]:
    """Return the ids of the attempts and nodes of the job whose logs have more than their heads."""
    sql = "SELECT number, log_stored - log_head, id FROM attempts WHERE job_id = ? AND id <> ?"
    logs = fetch_all(connection, sql, (attempt.job_id, attempt.id))
    logs.append((attempt.number, attempt.log_stored - attempt.log_head, attempt.id))
    return [log[2] for log in sorted(logs, key=lambda log: drop_order(log[0], log[1])) if log[1] > 0]


def _lock_unless_locked(connection: Connection, attempt_id: int) -> int | None:
    """Lock the row of another attempt or node, and return the length of its log's head; None if it is locked."""
    sql = "SELECT log_head FROM attempts WHERE id = ?"
    row = fetch_one(connection, sql + for_update_unless_locked(connection), (attempt_id,))
    return int(row[0]) if row else None


def _drop_oldest(connection: Connection, attempt_id: int, head: int, excess: int) -> tuple[int, int]:
    """Delete at least `excess` bytes of an attempt's log, if it has so many, from offset `head` on, oldest first.

    Return the number of deleted bytes and the offset after them.
    """
    freed = kept_from = 0
    sql = "SELECT start, size FROM log_chunks WHERE attempt_id = ? AND start >= ? ORDER BY start LIMIT ?"
    while freed < excess:
        oldest = fetch_all(connection, sql, (attempt_id, max(head, kept_from), ROWS_PER_READ))
        if not oldest:
            break
        for start, size in oldest:
            freed, kept_from = freed + size, start + size
            if freed >= excess:
                break
        delete = "DELETE FROM log_chunks WHERE attempt_id = ? AND start >= ? AND start < ?"
        execute(connection, delete, (attempt_id, head, kept_from))
    return freed, kept_from


def read(connection: Connection, attempt: AttemptRecord, offset: int, limit: int) -> LogPart:
    end = attempt.log_bytes
    offset = max(0, end + offset) if offset < 0 else min(offset, end)
    start, content = offset, bytearray()
    for at, size, data in _read_chunks(connection, attempt.id, offset):
        if at + size <= offset:
            continue
        if not content:
            start = max(offset, at)
        elif at != start + len(content):  # a gap that the quota left: the next read continues after it
            break
        content += _decompress(data)[max(0, offset - at) :]
        if len(content) >= limit:
            break
    else:
        start = start if content else end
    return LogPart(start=start, data=bytes(content[: max(limit, 0)]), end=end)


def _read_chunks(connection: Connection, attempt_id: int, offset: int) -> Iterator[Row]:
    sql = "SELECT max(start) FROM log_chunks WHERE attempt_id = ? AND start <= ?"
    row = fetch_one(connection, sql, (attempt_id, offset))
    start = row[0] if row and row[0] is not None else 0
    sql = (
        "SELECT start, size, data FROM log_chunks WHERE attempt_id = ? AND start >= ? ORDER BY start LIMIT ?"
    )
    while chunks := fetch_all(connection, sql, (attempt_id, start, ROWS_PER_READ)):
        yield from chunks
        start = chunks[-1][0] + 1


def _compress(data: bytes) -> bytes:
    if len(data) >= MIN_COMPRESSED_BYTES:
        packed = zlib.compress(data, 1)
        if len(packed) < len(data) * 9 // 10:
            return _COMPRESSED + packed
    return _RAW + data


def _decompress(data: bytes) -> bytes:
    return zlib.decompress(data[1:]) if data[:1] == _COMPRESSED else data[1:]
