"""How benchmark sections are run and how their page is written."""

from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from bench.__main__ import MEMORY, Section, measure_section, section_text, summarise
from bench.server import BenchServer, Figure

SERVER = cast(BenchServer, SimpleNamespace())
MET = Figure(what="start", ours="1 ms", target="at most 2 ms", met=True)
MISSED = Figure(what="memory", ours="9 MB", target="at most 8 MB", met=False)


def section(measure: Any) -> Section:
    return Section("Start", "How long it takes.", cast(ModuleType, SimpleNamespace(measure=measure)))


def test_a_section_that_fails_becomes_a_row_with_the_reason() -> None:
    def measure(server: BenchServer, *, quick: bool) -> list[Figure]:
        raise RuntimeError("the peer\ndid not start")

    [row] = measure_section(section(measure), SERVER, quick=False)
    assert (row.ours, row.met, row.failed) == ("not measured", False, True)
    assert row.how == "RuntimeError: the peer did not start"


def test_a_missed_target_fails_a_whole_run_but_not_a_quick_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as whole:
        summarise({MEMORY: [MET, MISSED]}, quick=False)
    with pytest.raises(SystemExit) as quick:
        summarise({MEMORY: [MET, MISSED]}, quick=True)
    assert (whole.value.code, quick.value.code) == (1, 0)
    assert "missed: memory" in capsys.readouterr().out


def test_each_row_of_the_page_has_the_number_of_clients() -> None:
    row = Figure(
        what="points/s", ours="9", against="MLflow 1", ratio="9x", clients="4 and 4", target="", met=True
    )
    text = section_text("Metrics ingestion", "How many metric points are stored.", [row])
    assert "| points/s | 9 | MLflow 1 | 9x | 4 and 4 |  |  |  |" in text
