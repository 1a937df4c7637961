"""Tests against real engines. Where an engine cannot run, its tests are skipped and the reason is printed once."""

from collections import Counter

import pytest

CANNOT_RUN = " cannot run here: "


def skip_engine(engine: str, reason: str) -> None:
    """Skip a test because its engine cannot be installed on this machine."""
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
