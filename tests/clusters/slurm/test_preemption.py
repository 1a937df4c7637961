"""A cluster on which the quality of service decides which jobs are preempted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.clusters import slurm
from scripts.clusters.slurm import SlurmCluster
from tests.clusters.conftest import report_missing_engine
from tests.clusters.slurm.test_contract import SlurmPlace

from anygpu.spec.sections import Resources
from anygpu.testing.servers.agent_listener import AgentListener


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    problem = slurm.install()
    if problem:
        report_missing_engine("Slurm", problem)
    folder = tmp_path_factory.mktemp("qos")
    with SlurmCluster(folder, nodes=1, settings={"PreemptType": "preempt/qos"}) as cluster:
        if not cluster.accounting:
            report_missing_engine("slurmdbd", "it is not installed")
        cluster.run("sacctmgr", "-i", "add", "qos", "scavenger")
        cluster.run("sacctmgr", "-i", "add", "qos", "urgent", "preempt=scavenger")
        cluster.run("sacctmgr", "-i", "add", "qos", "fair", "preemptmode=within,requeue")
        yield cluster


@pytest.mark.parametrize(
    ("qos", "interruptible"), [("scavenger", True), ("urgent", False), ("fair", True), ("", False)]
)
async def test_jobs_are_interruptible_if_another_quality_of_service_preempts_theirs(
    tmp_path: Path, cluster: SlurmCluster, qos: str, interruptible: bool
) -> None:
    with AgentListener({}) as listener:
        place = SlurmPlace(tmp_path, listener, cluster, qos=qos)
        offers = await place.backend.offers(Resources())
        await place.backend.close()
    assert [offer.interruptible for offer in offers] == [interruptible] * 2
