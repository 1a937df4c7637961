"""The store of the simulation keeps the promises of the real ones."""

import pytest

from anygpu.testing.contracts.blobs import BlobsContract
from anygpu.testing.contracts.sweeping import SweepingContract
from anygpu.testing.memory.blobs import MemoryBlobs


class TestMemoryBlobs(BlobsContract, SweepingContract):
    @pytest.fixture
    def blobs(self) -> MemoryBlobs:
        return MemoryBlobs()
