"""The attempts of a Celery worker: what is listed and what is removed. No agent is started here."""

import os
from pathlib import Path
from typing import Any

import pytest

from anygpu.agent.attempt_dir import DELIVERED_RETENTION_S
from anygpu.backends.celery.worker.attempts import WorkerAttempts

OWNER = "lab"


def worker_with(directory: Path, ended: int) -> WorkerAttempts:
    """Return the attempts of a worker that has run `ended` attempts, all of which have ended."""
    for number in range(ended):
        attempt = directory / OWNER / f"anygpu-{number:032x}-1"
        attempt.mkdir(parents=True)
        (attempt / "process.json").write_text("{}")
    return WorkerAttempts("gpu0@lab1", directory, ())


def count_stats(attempts: WorkerAttempts, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often listing the attempts reads the state of a file."""
    stat, count = os.stat, 0

    def counted(*args: Any, **options: Any) -> os.stat_result:
        nonlocal count
        count += 1
        return stat(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", counted)
        patch.setattr("anygpu.agent.host.processes.processes_by_attempt", dict)  # agents of other tests
        assert attempts.listed() == []
    return count


def test_listing_does_not_take_longer_with_each_ended_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (worker_with(tmp_path / str(ended), ended) for ended in (1, 300))
    assert count_stats(many, monkeypatch) == count_stats(few, monkeypatch)


def test_directories_of_attempts_that_ended_long_ago_are_removed(tmp_path: Path) -> None:
    attempts = worker_with(tmp_path, 3)
    old = tmp_path / OWNER / f"anygpu-{1:032x}-1"
    before = old.stat().st_mtime - DELIVERED_RETENTION_S - 60
    for path in (*old.iterdir(), old):
        os.utime(path, (before, before))
    attempts.remove_old()
    left = sorted(each.name for each in (tmp_path / OWNER).iterdir())
    assert left == [f"anygpu-{number:032x}-1" for number in (0, 2)]
