"""Blobs on Azurite."""

import uuid

import pytest

from anygpu.errors import BackendUnavailable
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs
from anygpu.testing.contracts.blobs import BlobsContract
from anygpu.testing.contracts.publishing import PublishingContract
from anygpu.testing.contracts.signed_urls import PrivateBlobsContract, SignedUrlsContract
from anygpu.testing.contracts.sweeping import SweepingContract


@pytest.fixture
def blobs(azure: dict[str, object]) -> Blobs:
    return open_blobs(f"az://anygpu/tests/{uuid.uuid4().hex}", options=azure)


class TestAzureBlobs(BlobsContract, SweepingContract):
    """Kept promises."""


class TestAzureSignedUrls(SignedUrlsContract, PrivateBlobsContract):
    """Kept promises, over HTTP."""


class TestAzurePublishing(PublishingContract):
    """Checkpoints, by way of signed URLs."""


NO_PATIENCE = {"retry": {"max_retries": 0}, "client": {"allow_http": True, "timeout": "5s"}}


async def test_wrong_credentials_are_not_taken_for_an_empty_store(azure: dict[str, object]) -> None:
    blobs = open_blobs("az://anygpu", options={**azure, "account_key": "d3Jvbmc=", **NO_PATIENCE})
    with pytest.raises(BackendUnavailable):
        await blobs.head("a")
    with pytest.raises(BackendUnavailable):
        await blobs.put("a", b"x")
