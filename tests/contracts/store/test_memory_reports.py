import pytest

from anygpu.testing.contracts.log_lines import LogLinesContract
from anygpu.testing.contracts.reports import ReportsContract
from anygpu.testing.memory.reports import MemoryReports


@pytest.fixture
def reports() -> MemoryReports:
    return MemoryReports(log_quota_bytes=64 * 1024)


class TestMemoryEvidence(ReportsContract):
    pass


class TestMemoryLogLines(LogLinesContract):
    pass
