"""The cache of downloaded files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from anygpu.agent.prepare.cache import FileCache


class Shop:
    """Brings files, and counts."""

    def __init__(self) -> None:
        self.brought: list[str] = []

    def bring(self, data: bytes) -> None:
        def to(target: str) -> None:
            self.brought.append(data.decode())
            Path(target).write_bytes(data)

        self.to = to


def get(cache: FileCache, shop: Shop, data: bytes) -> bytes:
    shop.bring(data)
    with cache.acquire(sha(data), shop.to, lambda: None) as path:
        return Path(path).read_bytes()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kept(root: Path) -> set[bytes]:
    return {path.read_bytes() for path in root.iterdir() if path.is_file()}


def test_a_cached_file_is_not_downloaded_again(tmp_path: Path) -> None:
    cache, shop = FileCache(str(tmp_path)), Shop()
    assert [get(cache, shop, b"same") for _ in range(3)] == [b"same"] * 3
    assert shop.brought == ["same"]


def test_other_users_cannot_read_the_cache(tmp_path: Path) -> None:
    FileCache(str(tmp_path / "cache"))
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_a_modified_file_is_downloaded_again(tmp_path: Path) -> None:
    cache, shop = FileCache(str(tmp_path)), Shop()
    get(cache, shop, b"right")
    path = tmp_path / sha(b"right")
    path.chmod(0o644)
    path.write_bytes(b"wrong")
    assert get(cache, shop, b"right") == b"right"
    assert shop.brought == ["right", "right"]


def test_the_least_recently_used_file_is_removed_first(tmp_path: Path) -> None:
    cache, shop = FileCache(str(tmp_path), max_bytes=250), Shop()
    one, two, three = b"1" * 100, b"2" * 100, b"3" * 100
    for age_s, data in enumerate((one, two)):
        get(cache, shop, data)
        path = tmp_path / sha(data)
        os.utime(path, (1000 + age_s, path.stat().st_mtime))
    get(cache, shop, one)  # used again: now `two` is the oldest
    get(cache, shop, three)
    assert kept(tmp_path) == {one, three}


def test_a_file_in_use_is_not_removed(tmp_path: Path) -> None:
    cache, shop = FileCache(str(tmp_path), max_bytes=100), Shop()
    held = b"h" * 90
    shop.bring(held)
    with cache.acquire(sha(held), shop.to, lambda: None) as path:
        FileCache(str(tmp_path), max_bytes=100).evict(100, keep="nothing")
        assert Path(path).read_bytes() == held


def test_files_are_removed_when_the_disk_is_full(tmp_path: Path) -> None:
    cache, shop = FileCache(str(tmp_path), max_bytes=1000), Shop()
    get(cache, shop, b"old" * 100)
    tries: list[int] = []

    def full_at_first(target: str) -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError(28, "No space left on device")
        Path(target).write_bytes(b"new")

    with cache.acquire(sha(b"new"), full_at_first, lambda: None) as path:
        assert Path(path).read_bytes() == b"new"
    assert kept(tmp_path) == {b"new"}


def test_a_full_disk_is_an_error_if_the_cache_is_empty(tmp_path: Path) -> None:
    def full(target: str) -> None:
        raise OSError(28, "No space left on device")

    with (
        pytest.raises(OSError, match="No space left"),
        FileCache(str(tmp_path)).acquire(sha(b"x"), full, lambda: None),
    ):
        raise AssertionError("nothing was there to be used")
