import base64

from hypothesis import given
from hypothesis import strategies as st

from anygpu.sdk.stream import START, Message, StreamCursor, advance


def log(attempt: int, end: int, data: bytes) -> Message:
    return {"kind": "log", "attempt": attempt, "log": end, "data": base64.b64encode(data).decode()}


def test_a_repeated_event_is_dropped() -> None:
    cursor, first = advance(START, {"kind": "event", "after": 3, "event": {}})
    cursor, again = advance(cursor, {"kind": "event", "after": 3, "event": {}})
    assert first is not None
    assert again is None
    assert cursor.after == 3


def test_only_new_bytes_of_overlapping_logs_are_yielded() -> None:
    _, message = advance(StreamCursor(attempt=1, log=3), log(1, 6, b"abcdef"))
    assert message is not None
    assert message["data"] == b"def"


def test_a_new_attempt_resets_log_and_metrics() -> None:
    cursor, message = advance(StreamCursor(attempt=1, log=100, point=9), log(2, 4, b"more"))
    assert message is not None
    assert cursor == StreamCursor(attempt=2, log=4, point=0)


def test_late_messages_of_an_earlier_attempt_are_dropped() -> None:
    cursor, message = advance(StreamCursor(attempt=2, log=4), log(1, 50, b"late"))
    assert message is None
    assert cursor == StreamCursor(attempt=2, log=4)


def test_only_new_points_of_overlapping_metrics_are_yielded() -> None:
    points = [["loss", step, 0.0, 0.5] for step in range(4)]
    _, message = advance(
        StreamCursor(attempt=1, point=3), {"kind": "metrics", "attempt": 1, "point": 4, "points": points}
    )
    assert message is not None
    assert message["points"] == points[3:]


def test_progress_has_no_cursor_and_always_passes() -> None:
    message: Message = {"kind": "progress", "attempt": 1, "progress": {}}
    assert advance(START, message) == (START, message)


@given(st.binary(min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=20))
def test_each_byte_is_yielded_once_and_in_order(text: bytes, ends: list[int]) -> None:
    cursor, told = START, b""
    for end in [*ends, len(text)]:
        end = min(end, len(text))
        begin = max(0, min(end, cursor.log) - 5)
        if begin == end:
            continue
        cursor, message = advance(cursor, log(1, end, text[begin:end]))
        told += message["data"] if message else b""
    assert told == text
