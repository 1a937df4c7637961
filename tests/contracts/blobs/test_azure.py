"""Blobs on Azurite."""

import uuid

import pytest

from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs
from anygpu.testing.contracts.blobs import BlobsContract
from anygpu.testing.contracts.publishing import PublishingContract
from anygpu.testing.contracts.signed_urls import PrivateBlobsContract, SignedUrlsContract


@pytest.fixture
def blobs(azure: dict[str, object]) -> Blobs:
    return open_blobs(f"az://anygpu/tests/{uuid.uuid4().hex}", options=azure)


class TestAzureBlobs(BlobsContract):
    """Kept promises."""


class TestAzureSignedUrls(SignedUrlsContract, PrivateBlobsContract):
    """Kept promises, over HTTP."""


class TestAzurePublishing(PublishingContract):
    """Checkpoints, by way of signed URLs."""
