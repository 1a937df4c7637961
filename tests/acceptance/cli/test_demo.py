"""The demo does what it says, and leaves nothing behind."""

import json
import tempfile
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell


@pytest.mark.slow
def test_the_demo_resumes_elsewhere_after_a_preemption_and_the_bills_agree(alone: Shell) -> None:
    before = set(Path(tempfile.gettempdir()).glob("anygpu-demo-*"))
    report = json.loads(alone("demo", "--json").stdout)
    assert report["troubles"] == []
    assert report["accuracy"] >= 0.95
    assert [place["backend"] for place in report["places"]] == ["aws", "lambda"]
    assert report["places"][0]["interruptible"]
    assert 0 < report["noticed_at_epoch"] <= report["resumed_from_epoch"] < report["epochs"]
    assert report["ledger_microusd"] == report["meter_microusd"] > 0
    assert report["machines_left"] == 0
    assert set(Path(tempfile.gettempdir()).glob("anygpu-demo-*")) <= before
