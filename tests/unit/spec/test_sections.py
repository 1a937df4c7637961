"""Sections of a job spec."""

from datetime import UTC, datetime, timedelta

from anygpu.spec import from_yaml


def test_a_deadline_from_submission_is_counted_from_there() -> None:
    submitted = datetime(2030, 1, 1, tzinfo=UTC)
    limits = from_yaml("{script: a.py, limits: {deadline: 6h}}").limits
    assert limits.deadline_from(submitted) == submitted + timedelta(hours=6)
    assert from_yaml("script: a.py").limits.deadline_from(submitted) is None
