"""Tests against real engines. Without root their tests may be skipped; the reason is then printed once."""

import os
from collections import Counter
from typing import NoReturn

import pytest

CANNOT_RUN = " cannot run here: "


def report_missing_engine(engine: str, reason: str) -> NoReturn:
    """Skip a test because its engine cannot run here. For root it fails, because root installs the engines."""
    if os.geteuid() == 0:
        pytest.fail(f"{engine}{CANNOT_RUN}{reason}", pytrace=False)
    pytest.skip(f"{engine}{CANNOT_RUN}{reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each engine that could not run, with the reason and the number of skipped tests."""
    skipped: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        if CANNOT_RUN in reason:
            skipped[reason.removeprefix("Skipped: ")] += 1
    for reason, count in sorted(skipped.items()):
        terminalreporter.write_line(f"{reason}. {count} tests were skipped.")
