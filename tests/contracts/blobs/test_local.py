"""Blobs in a directory."""

from pathlib import Path

import pytest

from anygpu.store.objects.local import LocalBlobs
from anygpu.testing.contracts.blobs import BlobsContract


class TestLocalBlobs(BlobsContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> LocalBlobs:
        return LocalBlobs(tmp_path / "blobs", secret=b"s" * 32)
