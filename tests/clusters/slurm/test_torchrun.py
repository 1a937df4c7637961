"""Four ranks with torchrun and gloo on two nodes of a real Slurm: the same result as one process, also after a kill."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.clusters.slurm import HIGH, SlurmCluster
from tests.clusters.slurm.product import Product, backend_settings, wait_until
from tests.trainers.ranks_job import (
    FOUR_PROCESSES,
    ONE_PROCESS,
    check_resumed_after_kill,
    check_same_result,
    has_trained,
    ranks_job,
)

pytestmark = pytest.mark.timeout(900)
TRAINERS_PYTHON = Path(__file__).parents[3] / ".venv-trainers" / "bin" / "python"
WITHIN_S = 240.0  # four processes that import torch, on two cores that also run other tests


class Cluster:
    """A server whose jobs run on Slurm with the Python of the trainers, which has torch."""

    def __init__(self, folder: Path, cluster: SlurmCluster) -> None:
        self.folder = folder
        self.product = Product(folder, cluster, backend_settings("lab", folder, partitions=[HIGH]))
        self.server = self.product.server

    def submit(self, name: str, *, waits: bool = False, **fields: Any) -> str:
        job = ranks_job(self.folder, name, str(TRAINERS_PYTHON), waits=waits, **fields)
        return self.server.submit(**job, placement={"allowed": ["lab"]})

    def run(self, name: str, **fields: Any) -> dict[str, Any]:
        """Run the job to its end, and return what it computed."""
        return self.result(self.submit(name, **fields))

    def result(self, job_id: str) -> dict[str, Any]:
        ended = self.server.wait(job_id, "completed", "failed", within_s=WITHIN_S)
        assert ended["status"] == "completed", ended["failure"]
        found: dict[str, Any] = self.server.fetch_json(job_id, "result.json")
        return found

    def pid_of(self, name: str, attempt: int, rank: int) -> int:
        """Return the process of a rank, once it runs."""
        path = self.folder / name / f"{attempt}-{rank}.pid"
        wait_until(lambda: path.exists() and path.read_text() != "", WITHIN_S)
        return int(path.read_text())


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster) -> Iterator[Cluster]:
    assert TRAINERS_PYTHON.exists(), f"{TRAINERS_PYTHON} is missing; make test-clusters installs it"
    folder = tmp_path_factory.mktemp("torchrun")
    made = Cluster(folder, cluster)
    yield made
    made.server.stop()
    assert "Traceback" not in (log := (folder / "server.log").read_text()), log


@pytest.fixture(scope="module")
def together(lab: Cluster) -> dict[str, Any]:
    return lab.run("together", **FOUR_PROCESSES)


def test_four_ranks_on_two_nodes_compute_the_same_as_one_process(
    lab: Cluster, together: dict[str, Any]
) -> None:
    check_same_result(lab.run("alone", **ONE_PROCESS), together, 4)
    lab.product.wait_until_empty()


def test_all_ranks_resume_after_one_was_killed(lab: Cluster, together: dict[str, Any]) -> None:
    job_id = lab.submit("killed", waits=True, **FOUR_PROCESSES)
    lab.server.until(job_id, has_trained, within_s=WITHIN_S)
    first = lab.product.slurm_job(job_id)
    assert lab.product.cluster.run("squeue", "-h", "-j", first, "-o", "%D").strip() == "2"
    os.kill(lab.pid_of("killed", 1, 3), signal.SIGKILL)
    lab.pid_of("killed", 2, 3)
    (lab.folder / "killed" / "go").touch()
    result = lab.result(job_id)
    check_resumed_after_kill(lab.server.job(job_id), result, together)
    lab.product.wait_until_empty()
