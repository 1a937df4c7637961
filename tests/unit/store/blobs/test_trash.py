"""Blobs in the trash can be found, restored and told from other blobs."""

import pytest

from anygpu.store.blobs.contract import BlobInfo
from anygpu.store.blobs.trash import list_trash, move_to_trash, parse_trash_key, restore_blobs, trash_key
from anygpu.testing.memory.blobs import MemoryBlobs

AT_MS = 1_760_000_000_000


def test_the_key_in_the_trash_tells_the_former_key_and_the_time() -> None:
    info = BlobInfo(key=trash_key("lab/jobs/a", AT_MS), size=1, modified_ms=0)
    assert info.key == "trash/20251009T085320Z/lab/jobs/a"
    trashed = parse_trash_key(info)
    assert trashed is not None
    assert (trashed.key, trashed.removed_at_ms) == ("lab/jobs/a", AT_MS)


@pytest.mark.parametrize("key", ["lab/jobs/a", "trash/soon/lab/jobs/a", "trash"])
def test_another_key_is_not_in_the_trash(key: str) -> None:
    assert parse_trash_key(BlobInfo(key=key, size=1, modified_ms=0)) is None


async def test_a_blob_that_another_process_moved_first_is_no_error() -> None:
    blobs = MemoryBlobs(lambda: AT_MS)
    await blobs.put("lab/a", b"1")
    await move_to_trash(blobs, "lab/a", AT_MS)
    await move_to_trash(blobs, "lab/a", AT_MS)
    assert [each.key for each in await list_trash(blobs)] == ["lab/a"]
    assert await blobs.head("lab/a") is None


async def test_a_needed_blob_is_restored_with_its_newest_content() -> None:
    blobs = MemoryBlobs(lambda: AT_MS)
    for content, at_ms in ((b"old", AT_MS), (b"new", AT_MS + 60_000)):
        await blobs.put("lab/a", content)
        await move_to_trash(blobs, "lab/a", at_ms)
    await blobs.put("lab/b", b"2")
    await move_to_trash(blobs, "lab/b", AT_MS)
    restored = await restore_blobs(blobs, await list_trash(blobs), lambda key: key == "lab/a")
    assert restored == {trash_key("lab/a", AT_MS + 60_000)}
    assert await blobs.get("lab/a") == b"new"
    assert await blobs.head("lab/b") is None


async def test_a_key_that_is_taken_again_is_not_overwritten() -> None:
    blobs = MemoryBlobs(lambda: AT_MS)
    await blobs.put("lab/a", b"old")
    await move_to_trash(blobs, "lab/a", AT_MS)
    await blobs.put("lab/a", b"new")
    assert await restore_blobs(blobs, await list_trash(blobs), lambda key: True) == set()
    assert await blobs.get("lab/a") == b"new"
