"""Blobs on Google Cloud Storage, as a fake of ours speaks it."""

import uuid

import pytest

from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs
from anygpu.testing.contracts.blobs import BlobPagesContract, BlobsContract
from anygpu.testing.contracts.publishing import PublishingContract
from anygpu.testing.contracts.signed_urls import PrivateBlobsContract, SignedUrlsContract
from anygpu.testing.contracts.sweeping import SweepingContract


@pytest.fixture
def blobs(gcs: dict[str, object]) -> Blobs:
    return open_blobs(f"gs://anygpu/tests/{uuid.uuid4().hex}", options=gcs)


class TestGCSBlobs(BlobsContract, BlobPagesContract, SweepingContract):
    """Kept promises."""


class TestGCSSignedUrls(SignedUrlsContract, PrivateBlobsContract):
    """Kept promises, over HTTP."""


class TestGCSPublishing(PublishingContract):
    """Checkpoints, by way of signed URLs."""
