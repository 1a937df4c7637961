"""Tests of `anygpu gc` on every blob store. Tests of a store provide the fixture `blobs`, an empty store."""

import time

from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.sweep import DAY_MS, References, restore_referenced, sweep_blobs
from anygpu.testing.contracts.blobs import keys
from anygpu.testing.samples.manifests import OWNER, begin_and_upload


class SweepingContract:
    """Tests that unneeded blobs go to the trash, come back when they are needed, and are deleted in the end."""

    async def test_a_checkpoint_goes_to_the_trash_and_comes_back(self, blobs: Blobs) -> None:
        checkpoints = Checkpoints(blobs)
        begun = await begin_and_upload(checkpoints, blobs, OWNER, "last.pt", b"one", b"two")
        manifest = (await checkpoints.verify(OWNER, begun.id)).manifest
        now_ms = time.time_ns() // 1_000_000 + 2 * DAY_MS
        assert (await sweep_blobs(blobs, References(), now_ms=now_ms)).count == 3
        assert await keys(blobs, "org") == []
        assert len(await keys(blobs, "trash")) == 3
        needed = References(keys=[manifest])
        assert await restore_referenced(blobs, needed, now_ms=now_ms) == 3
        assert await keys(blobs, "trash") == []
        assert await checkpoints.is_intact(manifest)
        assert await restore_referenced(blobs, needed, now_ms=now_ms) == 0

    async def test_the_trash_is_emptied_after_a_week(self, blobs: Blobs) -> None:
        await begin_and_upload(Checkpoints(blobs), blobs, OWNER, "last.pt", b"one")
        now_ms = time.time_ns() // 1_000_000 + 2 * DAY_MS
        await sweep_blobs(blobs, References(), now_ms=now_ms)
        assert (await sweep_blobs(blobs, References(), now_ms=now_ms + 6 * DAY_MS)).purged == 0
        assert (await sweep_blobs(blobs, References(), now_ms=now_ms + 7 * DAY_MS)).purged == 2
        assert await keys(blobs, "") == []
