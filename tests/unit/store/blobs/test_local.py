"""What the local store does on the disk."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anygpu.errors import BackendUnavailable, StorageFull
from anygpu.store.blobs.local import LocalBlobs
from anygpu.store.blobs.sweep import References, sweep_blobs
from anygpu.testing.contracts.blobs import keys


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "blobs", secret=b"s")


async def test_an_unfinished_put_leaves_no_file(blobs: LocalBlobs) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield b"x" * 5_000_000
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await blobs.put("folder/a", breaking())
    assert [path for path in blobs.root.rglob("*") if path.is_file()] == []


async def test_a_value_is_on_the_disk_before_it_has_its_name(
    blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    replace, fsync = Path.replace, os.fsync

    def recording_fsync(descriptor: int) -> None:
        done.append("sync")
        fsync(descriptor)

    def recording_replace(path: Path, to: Path) -> Path:
        done.append("name")
        return replace(path, to)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(Path, "replace", recording_replace)
    await blobs.put("folder/deeper/a", b"x")
    await blobs.put("folder/deeper/b", b"x")
    assert done == ["sync", "name", "sync", "sync", "sync", "sync", "name", "sync"]


async def test_a_full_disk_is_reported_and_nothing_is_stored(
    blobs: LocalBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    await blobs.put("a", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageFull) as refused:
            await blobs.put("a", b"new")
    assert isinstance(refused.value.__cause__, OSError)
    assert await blobs.get("a") == b"old"
    assert await keys(blobs, "") == ["a"]
    assert list((blobs.root / ".staging").iterdir()) == []


async def test_a_missing_directory_is_reported(blobs: LocalBlobs) -> None:
    (blobs.root / ".staging").rmdir()
    with pytest.raises(BackendUnavailable) as refused:
        await blobs.put("a", b"x")
    assert isinstance(refused.value.__cause__, FileNotFoundError)


async def test_what_a_killed_server_left_half_written_is_swept_after_a_day(blobs: LocalBlobs) -> None:
    left = blobs.root / ".staging" / "half"
    left.write_bytes(b"x" * 10)
    os.utime(left, (1000, 1000))
    fresh = blobs.root / ".staging" / "fresh"
    fresh.write_bytes(b"x")
    now_ms = fresh.stat().st_mtime_ns // 1_000_000
    planned = await sweep_blobs(blobs, References(), now_ms=now_ms, dry_run=True)
    assert (planned.unfinished, planned.size) == (1, 10)
    assert left.exists()
    assert (await sweep_blobs(blobs, References(), now_ms=now_ms)) == planned
    assert not left.exists()
    assert fresh.exists()


async def test_deleting_the_last_blob_of_a_folder_removes_the_folder(blobs: LocalBlobs) -> None:
    await blobs.put("a/b/c", b"x")
    await blobs.delete("a/b/c")
    assert [path.name for path in blobs.root.iterdir()] == [".staging"]


async def test_only_the_owner_can_look_inside(blobs: LocalBlobs) -> None:
    await blobs.put("a", b"x")
    assert blobs.root.stat().st_mode & 0o777 == 0o700
    assert (blobs.root / "a").stat().st_mode & 0o777 == 0o600
