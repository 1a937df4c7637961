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


def test_an_error_that_says_what_to_do_is_logged_without_a_trace_and_any_other_with_one() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    expected, bug, other = map(json.loads, done.stderr.splitlines())
    assert (expected["error"], expected["code"], "exception" in expected) == ("no room", "quota", False)
    assert "Internal: a bug" in bug["exception"]
    assert "ValueError: odd" in other["exception"]
