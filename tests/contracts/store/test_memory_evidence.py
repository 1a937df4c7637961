import pytest

from anygpu.testing.contracts.evidence import EvidenceContract
from anygpu.testing.memory import MemoryEvidence


@pytest.fixture
def evidence() -> MemoryEvidence:
    return MemoryEvidence(log_quota_bytes=64 * 1024)


class TestMemoryEvidence(EvidenceContract):
    pass
