"""Tests that every blob store must pass. Tests of a store provide the fixture `blobs`, an empty store."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from anygpu.errors import BlobMissing, UnsafePath
from anygpu.store.blobs.contract import Blobs

MIB = 1024 * 1024
ODD_KEYS = [
    "a b/c d.txt",
    "percent%25/%2e%2e/100%",
    "plus+and&amp=equals?question#fragment",
    "jalapeño/日本語/😀",
    "quote'and\"double",
    "(brackets)[square]{curly}<angle>",
    "semi;colon:comma,at@dollar$bang!star*tilde~caret^pipe|tick`",
    ".hidden/..double..dots/-dash/é",
    "long+/" + "x" * 240,
]
BAD_KEYS = ["", "/", "/absolute", "trailing/", "a//b", "..", "../up", "a/../b", "a/./b", "a/..", "nul\0"]
BAD_KEYS += ["line\nbreak", "back\\slash", "dot.", "a#1", "x" * 241, "y/" * 500 + "z", "\ud800", ".staging/x"]


class BlobsContract:
    """Tests of the methods put, get, head, list and delete of `Blobs`."""

    async def test_what_was_put_is_got(self, blobs: Blobs) -> None:
        before = await blobs.put("folder/a", b"hello")
        assert (before.key, before.size) == ("folder/a", 5)
        assert await blobs.get("folder/a") == b"hello"
        info = await blobs.head("folder/a")
        assert info is not None
        assert (info.key, info.size) == ("folder/a", 5)
        assert abs(info.modified_ms - before.modified_ms) <= 10_000

    async def test_nothing_is_a_value_too(self, blobs: Blobs) -> None:
        await blobs.put("empty", b"")
        await blobs.put("empty-stream", pieces())
        assert await blobs.get("empty") == b""
        assert [piece async for piece in blobs.stream("empty-stream")] == []

    async def test_what_is_not_there_is_missing(self, blobs: Blobs) -> None:
        await blobs.put("folder/a", b"hello")
        for key in ("nothing", "folder", "folder/a/below"):
            assert await blobs.head(key) is None
            with pytest.raises(BlobMissing):
                await blobs.get(key)
            with pytest.raises(BlobMissing):
                await blobs.get(key, start=1, length=1)
            with pytest.raises(BlobMissing):
                await whole(blobs.stream(key))

    async def test_a_range_gives_just_those_bytes(self, blobs: Blobs) -> None:
        await blobs.put("a", b"0123456789")
        assert await blobs.get("a", start=2, length=3) == b"234"
        assert await blobs.get("a", start=0, length=1) == b"0"
        assert await blobs.get("a", start=7) == b"789"

    async def test_a_range_past_the_end_gives_what_there_is(self, blobs: Blobs) -> None:
        await blobs.put("a", b"0123456789")
        assert await blobs.get("a", start=8, length=100) == b"89"
        assert await blobs.get("a", start=10) == b""
        assert await blobs.get("a", start=500, length=5) == b""
        assert await blobs.get("a", start=3, length=0) == b""

    async def test_a_list_shows_a_folder_and_nothing_beside_it(self, blobs: Blobs) -> None:
        for key in ("a/1", "a/deep/er/2", "ab/3", "a.txt", "b/a/4"):
            await blobs.put(key, key.encode())
        assert await keys(blobs, "a") == await keys(blobs, "a/") == ["a/1", "a/deep/er/2"]
        assert await keys(blobs, "a/deep") == ["a/deep/er/2"]
        assert await keys(blobs, "nothing") == []
        assert await keys(blobs, "") == ["a.txt", "a/1", "a/deep/er/2", "ab/3", "b/a/4"]
        assert {info.size async for info in blobs.list("a/deep")} == {len("a/deep/er/2")}

    async def test_a_moved_blob_has_only_its_new_key(self, blobs: Blobs) -> None:
        await blobs.put("from/here", b"hello")
        await blobs.put("to/there", b"replaced")
        await blobs.move("from/here", "to/there")
        assert await blobs.get("to/there") == b"hello"
        assert await blobs.head("from/here") is None
        await blobs.move("to/there", "new/folder/a b+c")
        assert await keys(blobs, "") == ["new/folder/a b+c"]

    async def test_moving_what_is_not_there_changes_nothing(self, blobs: Blobs) -> None:
        await blobs.put("folder/kept", b"hello")
        for source in ("nothing", "folder"):
            with pytest.raises(BlobMissing):
                await blobs.move(source, "folder/kept")
        assert await blobs.get("folder/kept") == b"hello"
        for source, target in (("../up", "a"), ("folder/kept", "../up")):
            with pytest.raises(UnsafePath):
                await blobs.move(source, target)

    async def test_moves_of_one_blob_at_the_same_time_keep_it(self, blobs: Blobs) -> None:
        await blobs.put("from", b"hello")
        moves = (blobs.move("from", f"to/{number}") for number in range(4))
        results = await asyncio.gather(*moves, return_exceptions=True)
        assert all(result is None or isinstance(result, BlobMissing) for result in results)
        assert {await blobs.get(key) for key in await keys(blobs, "to")} == {b"hello"}
        assert await blobs.head("from") is None

    async def test_deleting_twice_is_the_same_as_once(self, blobs: Blobs) -> None:
        await blobs.put("folder/a", b"hello")
        await blobs.delete("folder/a")
        await blobs.delete("folder/a")
        await blobs.delete("never/was")
        assert await blobs.head("folder/a") is None
        assert await keys(blobs, "") == []

    @pytest.mark.parametrize("key", ODD_KEYS)
    async def test_an_odd_key_is_kept_as_it_is(self, blobs: Blobs, key: str) -> None:
        await blobs.put(key, key.encode())
        assert await blobs.get(key) == key.encode()
        assert await keys(blobs, "") == [key]
        assert await keys(blobs, key.split("/")[0]) == ([key] if "/" in key else [])
        with pytest.raises(UnsafePath):
            await blobs.sign("GET", key, expires_s=60)
        await blobs.delete(key)
        assert await blobs.head(key) is None

    @pytest.mark.parametrize("key", BAD_KEYS)
    async def test_a_key_that_could_lead_elsewhere_is_refused(self, blobs: Blobs, key: str) -> None:
        with pytest.raises(UnsafePath):
            await blobs.put(key, b"x")
        with pytest.raises(UnsafePath):
            await blobs.get(key)
        with pytest.raises(UnsafePath):
            await blobs.sign("PUT", key, expires_s=60)
        assert await keys(blobs, "") == []

    async def test_a_put_that_was_not_finished_is_never_listed(self, blobs: Blobs) -> None:
        with pytest.raises(ZeroDivisionError):
            await blobs.put("torn", breaking_after(12 * MIB))
        assert await blobs.head("torn") is None
        assert await keys(blobs, "") == []

    async def test_a_put_that_was_cancelled_is_never_listed(self, blobs: Blobs) -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(blobs.put("torn", stalling_after(12 * MIB, begun)))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await blobs.head("torn") is None
        assert await keys(blobs, "") == []

    async def test_a_failed_overwrite_leaves_the_old_value(self, blobs: Blobs) -> None:
        await blobs.put("a", b"old")
        with pytest.raises(ZeroDivisionError):
            await blobs.put("a", breaking_after(12 * MIB))
        assert await blobs.get("a") == b"old"

    async def test_a_reader_sees_the_old_value_or_the_new_never_both(self, blobs: Blobs) -> None:
        values = [bytes([letter]) * (3 * MIB + letter) for letter in b"ABCDEF"]
        await blobs.put("a", values[0])
        writing = asyncio.create_task(put_all(blobs, "a", values))
        while not writing.done():
            assert await blobs.get("a") in values
            await asyncio.sleep(0)
        await writing
        assert await blobs.get("a") == values[-1]

    async def test_concurrent_puts_of_one_key_leave_one_whole_value(self, blobs: Blobs) -> None:
        values = [bytes([letter]) * (MIB + letter) for letter in b"ABCDEFGH"]
        await asyncio.gather(*(blobs.put("a", value) for value in values))
        assert await blobs.get("a") in values
        assert await keys(blobs, "") == ["a"]

    async def test_a_large_value_goes_and_comes_in_parts(self, blobs: Blobs) -> None:
        value = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(550_000))
        assert len(value) > 16 * MIB
        assert (await blobs.put("stream", in_pieces(value, 777_777))).size == len(value)
        assert (await blobs.put("bytes", value)).size == len(value)
        assert await whole(blobs.stream("stream")) == value
        assert await blobs.get("bytes") == value
        assert await blobs.get("stream", start=16 * MIB - 5, length=10) == value[16 * MIB - 5 :][:10]


class BlobPagesContract:
    """Tests that a list with more keys than one page (a thousand keys) is complete."""

    async def test_a_list_longer_than_a_page_is_whole(self, blobs: Blobs) -> None:
        names = [f"many/{number:04}" for number in range(1005)]
        for start in range(0, len(names), 67):
            await asyncio.gather(*(blobs.put(name, b"x") for name in names[start : start + 67]))
        assert await keys(blobs, "many") == names


async def keys(blobs: Blobs, prefix: str) -> list[str]:
    return sorted([info.key async for info in blobs.list(prefix)])


async def whole(stream: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in stream])


async def pieces(*values: bytes) -> AsyncIterator[bytes]:
    for value in values:
        yield value


def in_pieces(value: bytes, size: int) -> AsyncIterator[bytes]:
    return pieces(*(value[start : start + size] for start in range(0, len(value), size)))


async def breaking_after(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // MIB):
        yield b"x" * MIB
    raise ZeroDivisionError("the sender went away")


async def stalling_after(size: int, begun: asyncio.Event) -> AsyncIterator[bytes]:
    for _ in range(size // MIB):
        yield b"x" * MIB
    begun.set()
    await asyncio.Event().wait()


async def put_all(blobs: Blobs, key: str, values: list[bytes]) -> None:
    for value in values:
        await blobs.put(key, value)
