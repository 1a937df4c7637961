"""Run pytest: `python -m scripts.run_tests [arguments of pytest]`.

With REPEAT_FAILED=1, which CI sets, tests that failed are repeated once, one after the other. Many tests start servers,
browsers and clusters, which share two processors with other tests. A test that needs the second try does not stop a
change, but its name is printed, so that it can be corrected. If more than a few tests fail, none is repeated.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(__file__).resolve().parents[1] / "build" / "pytest" / "v" / "cache" / "lastfailed"
SOME_FAILED = 1  # exit code of pytest
MAX_REPEATED = 5


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", *arguments]
    code = subprocess.call(command)
    if code != SOME_FAILED or not os.environ.get("REPEAT_FAILED"):
        return code
    failed = list(json.loads(LAST_FAILED.read_text()))
    if len(failed) > MAX_REPEATED:
        return code
    print(f"Tests that failed, and are repeated once: {', '.join(failed)}", flush=True)
    return subprocess.call([*command, "-n", "0", "--last-failed"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
