"""Unchanged files are not read again, and a file that changed just before it was hashed is."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from anygpu.sdk.upload import stat_cache
from anygpu.sdk.upload.stat_cache import StatCache


def digest(path: Path, cache_file: Path) -> str:
    with StatCache(cache_file) as cache:
        return cache.sha256(path, "a")[1]


def in_the_past(path: Path) -> None:
    """Wait until the change time of the file is old enough for the cache (a virtual clock cannot set it)."""
    end = path.stat().st_ctime_ns + stat_cache.RACY_NS
    while time.time_ns() <= end:
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def short_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stat_cache, "RACY_NS", 50_000_000)


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path, cache = tmp_path / "a", tmp_path / "cache" / "c.json"
    path.write_text("content")
    in_the_past(path)
    first = digest(path, cache)
    assert first == hashlib.sha256(b"content").hexdigest()
    cache.write_text(cache.read_text().replace(first, "0" * 64))
    assert digest(path, cache) == "0" * 64  # taken from the cache
    path.chmod(0o600)  # a new change time
    assert digest(path, cache) == first


def test_a_file_that_was_just_written_is_read_again(tmp_path: Path) -> None:
    path, cache = tmp_path / "a", tmp_path / "c.json"
    path.write_text("first!")
    status = path.stat()
    digest(path, cache)
    path.write_text("second")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert digest(path, cache) == hashlib.sha256(b"second").hexdigest()


@pytest.mark.parametrize("damage", ["", "[]", '{"a": 1}', '{"a": [1, 2]}', "\0"])
def test_a_damaged_cache_only_costs_time(tmp_path: Path, damage: str) -> None:
    path, cache = tmp_path / "a", tmp_path / "c.json"
    path.write_text("content")
    cache.write_text(damage)
    assert digest(path, cache) == hashlib.sha256(b"content").hexdigest()


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("content")
    (tmp_path / "file").write_text("")
    assert digest(path, tmp_path / "file" / "c.json") == hashlib.sha256(b"content").hexdigest()
