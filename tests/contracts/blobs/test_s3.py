"""Blobs on LocalStack."""

import uuid

import pytest

from anygpu.errors import BackendUnavailable
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs
from anygpu.testing.contracts.blobs import BlobPagesContract, BlobsContract
from anygpu.testing.contracts.publishing import PublishingContract
from anygpu.testing.contracts.signed_urls import SignedUrlsContract
from anygpu.testing.contracts.sweeping import SweepingContract


@pytest.fixture
def blobs(s3: dict[str, object]) -> Blobs:
    return open_blobs(f"s3://anygpu/tests/{uuid.uuid4().hex}", options=s3)


class TestS3Blobs(BlobsContract, BlobPagesContract, SweepingContract):
    """Kept promises."""


class TestS3SignedUrls(SignedUrlsContract):
    """Kept promises, over HTTP."""


class TestS3Publishing(PublishingContract):
    """Checkpoints, by way of signed URLs."""


async def test_a_bucket_that_is_not_there_is_no_missing_blob(s3: dict[str, object]) -> None:
    blobs = open_blobs("s3://nobody-made-this", options=s3)
    with pytest.raises(BackendUnavailable):
        await blobs.put("a", b"x")
