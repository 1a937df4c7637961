"""What the start of a server leaves for later."""

import subprocess
import sys

LATER = ("anygpu.trainers", "anygpu.server.routes.costs", "anygpu.plan.analyse.job", "asyncssh", "boto3")


def test_the_start_loads_neither_trainers_nor_rarely_used_routes() -> None:
    code = f"import sys, anygpu.wiring.server; print([name for name in {LATER} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
