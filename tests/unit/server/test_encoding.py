"""JSON text of the API."""

import json

from anygpu.server.encoding import dumps, format_optional_time, format_time


def test_times_are_utc_with_milliseconds() -> None:
    assert format_time(1_767_607_200_007) == "2026-01-05T10:00:00.007Z"
    assert format_optional_time(None) is None


def test_numbers_that_json_lacks_become_strings_at_any_depth() -> None:
    value = {"a": [float("nan"), (float("inf"), -float("inf"))], "b": 1.5}
    assert json.loads(dumps(value)) == {"a": ["NaN", ["Infinity", "-Infinity"]], "b": 1.5}
