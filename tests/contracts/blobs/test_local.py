"""Blobs in a directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.blobs.serving_local import SECRET, serving_local

from anygpu.store.objects.local import LocalBlobs
from anygpu.testing.contracts.blobs import BlobsContract
from anygpu.testing.contracts.signed_urls import PrivateContract, SignedUrlsContract, fetch


class TestLocalBlobs(BlobsContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> LocalBlobs:
        return LocalBlobs(tmp_path / "blobs", secret=SECRET)


class TestLocalSignedUrls(SignedUrlsContract, PrivateContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> Iterator[LocalBlobs]:
        blobs = LocalBlobs(tmp_path / "blobs", secret=SECRET)
        with serving_local(blobs):
            yield blobs

    async def test_more_than_the_url_allows_is_refused(self, blobs: LocalBlobs) -> None:
        url = await blobs.sign("PUT", "small", expires_s=60, max_size=4)
        assert (await fetch("PUT", url, b"12345"))[0] == 413
        assert (await fetch("PUT", url.replace("max_size=4", "max_size=5"), b"12345"))[0] == 403
        assert await blobs.head("small") is None
