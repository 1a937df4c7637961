"""A real server whose jobs run on a real Slurm cluster: what the tests of the whole product need."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts.clusters.slurm import SlurmCluster
from tests.acceptance.machines.cloud import BRISK, Server
from tests.clusters.example_job import STEP_S, STEPS, make_project, model_bytes, recovery_codes, submit


class Product:
    """A server with Slurm backends. `submit` sends the example job with checkpoints."""

    def __init__(self, folder: Path, cluster: SlurmCluster, settings: str, **environment: str) -> None:
        self.cluster = cluster
        self._shared = folder / "shared"
        self.key_lines: list[str] = []  # of the private key with which the server logs in
        self._project = make_project(folder)
        self.server = Server(
            folder,
            settings,
            **{**BRISK, "ANYGPU_AGENT__LEASE_S": "60"},
            **cluster.variables,
            **environment,
        )

    def submit(self, backend: str, *options: str, steps: int = STEPS, step_s: float = STEP_S) -> str:
        return submit(self.server, self._project, backend, *options, steps=steps, step_s=step_s)

    def wait_for_checkpoint(self, job_id: str, attempt: int = 1) -> dict[str, Any]:
        return self.server.until(
            job_id, lambda job: bool(job["checkpoint"]) and job["attempt"] >= attempt, within_s=60
        )

    def slurm_job(self, job_id: str) -> str:
        """Return the number of the Slurm job that runs the newest attempt."""
        name = f"anygpu-{job_id.replace('-', '')}-{self.server.job(job_id)['attempt']}"
        return self.cluster.run("squeue", "-h", "-n", name, "-o", "%i").split()[0]

    def node_of(self, job: str) -> str:
        return self.cluster.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%N").strip()

    def model(self, job_id: str) -> bytes:
        return model_bytes(self.server, job_id)

    def codes(self, job_id: str) -> list[str]:
        return recovery_codes(self.server, job_id)

    def wait_until_empty(self, within_s: float = 30) -> None:
        wait_until(lambda: self.cluster.jobs() == [], within_s)

    def mailboxes(self) -> list[Path]:
        """Return the mailboxes of the relay `cluster` of all backends. Those of ended attempts go after 30 seconds."""
        return [*self._shared.glob("*/relay/*/*")]


def wait_until(holds: Callable[[], bool], within_s: float = 30) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "the condition did not become true within the time limit of the test"
        time.sleep(0.1)


def backend_settings(name: str, folder: Path, **options: Any) -> str:
    every = {
        "kind": "slurm",
        "directory": str(folder / "shared" / name),
        "python": sys.executable,
        "poll_s": 0.5,
        "relay": "",
        **options,
    }
    lines = [f"{option} = {json.dumps(value)}" for option, value in every.items()]
    return "\n".join([f"[backends.{name}]", *lines, ""])
