"""The demo does what it says, and leaves nothing behind."""

import json
import os
import re
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell
from tests.acceptance.cli.test_follow import exit_code, shown_until, start


@pytest.mark.extended
@pytest.mark.slow
def test_the_demo_resumes_elsewhere_after_a_preemption_and_the_bills_agree(alone: Shell) -> None:
    before = set(Path(tempfile.gettempdir()).glob("anygpu-demo-*"))
    # It must not end before the preemption.
    report = json.loads(alone("demo", "--json", "--epochs", "300", timeout=280).stdout)
    slow = re.compile(r"recovery took \d")  # it has a limit for the reader, which a busy machine may exceed
    assert [trouble for trouble in report["troubles"] if not slow.match(trouble)] == []
    assert report["accuracy"] >= 0.95
    assert [place["backend"] for place in report["places"]] == ["aws", "lambda"]
    assert report["places"][0]["interruptible"]
    assert 0 < report["noticed_at_epoch"] <= report["resumed_from_epoch"] < report["epochs"]
    assert report["ledger_microusd"] == report["meter_microusd"] > 0
    assert report["machines_left"] == 0
    assert set(Path(tempfile.gettempdir()).glob("anygpu-demo-*")) <= before


@pytest.mark.extended
@pytest.mark.slow
def test_in_a_terminal_the_demo_keeps_its_pages_until_a_key_is_pressed(alone: Shell) -> None:
    pid, terminal = start(alone, "demo", "--epochs", "300")
    seen = shown_until(terminal, "(works once)", 120)
    link = re.findall(r"http://127\.0\.0\.1:\d+/login/\S+\?next=/jobs/[0-9a-f-]+", seen)[0]
    with urllib.request.urlopen(link, timeout=30) as page:
        assert "/jobs/" in page.url
        assert b"<title>anygpu</title>" in page.read()
    seen += shown_until(terminal, "Press a key to stop it.", 120)
    url = link.partition("/login/")[0]
    with urllib.request.urlopen(f"{url}/healthz", timeout=30) as health:
        assert health.status == 200
    os.write(terminal, b"x")
    assert exit_code(pid, terminal) == 0, seen
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/healthz", timeout=30)
