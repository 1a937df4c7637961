"""Blobs in a directory, behind a server that honours their URLs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.blobs.serving_local import SECRET, serving_local

from anygpu.store.blobs.local import LocalBlobs
from anygpu.testing.contracts.blobs import BlobPagesContract, BlobsContract
from anygpu.testing.contracts.publishing import PublishingContract
from anygpu.testing.contracts.signed_urls import PrivateBlobsContract, SignedUrlsContract, fetch
from anygpu.testing.contracts.sweeping import SweepingContract


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[LocalBlobs]:
    blobs = LocalBlobs(tmp_path / "blobs", secret=SECRET)
    with serving_local(blobs):
        yield blobs


class TestLocalBlobs(BlobsContract, BlobPagesContract, SweepingContract):
    """Kept promises."""


class TestLocalPublishing(PublishingContract):
    """Checkpoints, by way of signed URLs."""


class TestLocalSignedUrls(SignedUrlsContract, PrivateBlobsContract):
    """Kept promises, over HTTP."""

    async def test_more_than_the_url_allows_is_refused(self, blobs: LocalBlobs) -> None:
        url = await blobs.sign("PUT", "small", expires_s=60, max_size=4)
        assert (await fetch("PUT", url, b"12345"))[0] == 413
        assert (await fetch("PUT", url.replace("max_size=4", "max_size=5"), b"12345"))[0] == 403
        assert await blobs.head("small") is None
