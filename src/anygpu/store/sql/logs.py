"""Log bytes in chunks by offset. Beyond the job's quota the middle goes: the beginning and the newest stay."""

import zlib
from collections.abc import Iterator

from sqlalchemy import Connection

from anygpu.store.reports import LogPart
from anygpu.store.sql.attempts import AttemptRecord
from anygpu.store.sql.statements import Row, execute, execute_many, fetch_all, fetch_one

CHUNK_BYTES = 64 * 1024  # bytes of a chunk at most
SMALL_CHUNK_BYTES = CHUNK_BYTES // 4  # a chunk below waits to be joined with its neighbours
MERGE_AT_CHUNKS = 64  # small chunks
MIN_COMPRESSED_BYTES = 256
ROWS_PER_READ = 32  # rows

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
    room = max(0, quota_bytes // 4 - ever - attempt.log_bytes)
    piece = min(CHUNK_BYTES, max(1, quota_bytes // 16))  # the quota is kept by whole chunks
    _append(connection, attempt, data[:room], piece)
    attempt.log_head += len(data[:room])
    _append(connection, attempt, data[room:], piece)
    if attempt.loose_logs >= MERGE_AT_CHUNKS:
        _merge_small_chunks(connection, attempt, piece)
    excess = stored + attempt.log_stored - quota_bytes
    if excess > 0:
        _drop_excess(connection, attempt, excess)


def _append(connection: Connection, attempt: AttemptRecord, data: bytes, piece: int) -> None:
    chunks = list(_split_chunks(attempt.id, attempt.log_bytes, data, piece))
    if chunks:
        execute_many(connection, _INSERT, chunks)
    attempt.log_bytes += len(data)
    attempt.log_stored += len(data)
    attempt.loose_logs += sum(1 for chunk in chunks if chunk[2] < SMALL_CHUNK_BYTES)


def _split_chunks(attempt_id: int, start: int, data: bytes, piece: int) -> Iterator[Row]:
    for offset in range(0, len(data), piece):
        part = data[offset : offset + piece]
        yield attempt_id, start + offset, len(part), _compress(part)


def _merge_small_chunks(connection: Connection, attempt: AttemptRecord, piece: int) -> None:
    """Write small neighbours anew as large chunks, never across the end of the head."""
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
    chunks = [chunk for start, data in runs for chunk in _split_chunks(attempt.id, start, bytes(data), piece)]
    execute_many(connection, _INSERT, chunks)
    attempt.log_joined, attempt.loose_logs = attempt.log_bytes, 0


def _drop_excess(connection: Connection, attempt: AttemptRecord, excess: int) -> None:
    """Free at least so many bytes of the job's log: after the heads, the oldest attempt first."""
    sql = "SELECT id, log_head FROM attempts WHERE job_id = ? ORDER BY number"
    for attempt_id, head in fetch_all(connection, sql, (attempt.job_id,)):
        mine = attempt_id == attempt.id
        freed, kept_from = _drop_oldest(connection, attempt_id, attempt.log_head if mine else head, excess)
        if mine:
            attempt.log_stored -= freed
            attempt.log_kept_from = max(attempt.log_kept_from, kept_from)
        elif freed:
            changed = "UPDATE attempts SET log_stored = log_stored - ?, log_kept_from = ? WHERE id = ?"
            execute(connection, changed, (freed, kept_from, attempt_id))
        excess -= freed
        if excess <= 0:
            return


def _drop_oldest(connection: Connection, attempt_id: int, head: int, excess: int) -> tuple[int, int]:
    """How many bytes went, and from where on the log is kept."""
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
        gone = "DELETE FROM log_chunks WHERE attempt_id = ? AND start >= ? AND start < ?"
        execute(connection, gone, (attempt_id, head, kept_from))
    return freed, kept_from


def read(connection: Connection, attempt: AttemptRecord, offset: int, limit: int) -> LogPart:
    end = attempt.log_bytes
    offset = max(0, end + offset) if offset < 0 else min(offset, end)
    start, found = offset, bytearray()
    for at, size, data in _read_chunks(connection, attempt.id, offset):
        if at + size <= offset:
            continue
        if not found:
            start = max(offset, at)
        elif at != start + len(found):  # the quota's hole: the next read begins after it
            break
        found += _decompress(data)[max(0, offset - at) :]
        if len(found) >= limit:
            break
    else:
        start = start if found else end
    return LogPart(start=start, data=bytes(found[: max(limit, 0)]), end=end)


def _read_chunks(connection: Connection, attempt_id: int, offset: int) -> Iterator[Row]:
    sql = "SELECT max(start) FROM log_chunks WHERE attempt_id = ? AND start <= ?"
    found = fetch_one(connection, sql, (attempt_id, offset))
    start = found[0] if found and found[0] is not None else 0
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
