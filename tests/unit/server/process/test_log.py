"""What the server's log says of errors."""

import json
import subprocess
import sys

PROGRAM = """
from anygpu.errors import Internal, NoQuota
from anygpu.server.process import log
for error in (NoQuota("no room"), Internal("a bug"), ValueError("odd")):
    try:
        raise error
    except Exception as caught:
        log.failure("it failed", caught)
"""


def test_only_unexpected_errors_are_logged_with_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    expected, bug, other = map(json.loads, done.stderr.splitlines())
    assert (expected["error"], expected["code"], "exception" in expected) == ("no room", "quota", False)
    assert "Internal: a bug" in bug["exception"]
    assert "ValueError: odd" in other["exception"]


def test_text_lines_show_control_characters() -> None:
    program = """
from anygpu.server.process import log
log.configure("info", "text")
log.info("job \\x1b]0;x\\x07", name="a\\u202eb\\x1b[2J")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    assert "job \\x1b]0;x\\x07" in done.stderr
