"""The demo does what it says, and leaves nothing behind."""

import json
import tempfile
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demo_trains_is_killed_resumes_and_cleans_up(alone) -> None:
    before = set(Path(tempfile.gettempdir()).glob("anygpu-demo-*"))
    report = json.loads(alone("demo", "--json").stdout)
    assert report["troubles"] == []
    assert report["accuracy"] >= 0.95
    assert 0 < report["resumed_from_epoch"] < report["killed_at_epoch"] < report["epochs"]
    assert report["took_s"] < 60
    assert set(Path(tempfile.gettempdir()).glob("anygpu-demo-*")) <= before
