"""A run of a private cluster that is killed leaves no daemon behind."""

import contextlib
import subprocess
import sys
import time
from pathlib import Path

STOP_LIMIT_S = 30.0


def daemons(folder: Path) -> list[str]:
    """Return the names of the processes that use the cluster in this directory."""
    mark, found = f"SLURM_CONF={folder}/slurm.conf\0".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                found.append((entry / "comm").read_text().strip())
    return found


def test_the_daemons_end_with_a_killed_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.clusters.slurm", "run", "--no-accounting"]
    run = subprocess.Popen([*command, "--directory", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == f"export SLURM_CONF={tmp_path}/slurm.conf\n"
        assert {"munged", "slurmctld", "slurmd"} <= set(daemons(tmp_path))
    finally:
        run.kill()
        run.communicate()
    end = time.monotonic() + STOP_LIMIT_S
    while left := daemons(tmp_path):
        assert time.monotonic() < end, left
        time.sleep(0.05)
