"""A cluster without accounting, whose controller forgets ended jobs soon."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from scripts.clusters import slurm
from scripts.clusters.slurm import SlurmCluster
from tests.clusters.conftest import report_missing_engine
from tests.clusters.slurm.test_contract import SlurmPlace, start

from anygpu.backends.contract import MachineState
from anygpu.events.offers import Handle
from anygpu.spec.sections import Resources
from anygpu.testing.contracts.backend import wait_for_state
from anygpu.testing.servers.agent_listener import AgentListener

FORGET_LIMIT_S = 100.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    problem = slurm.install()
    if problem:
        report_missing_engine("Slurm", problem)
    folder = tmp_path_factory.mktemp("plain")
    with SlurmCluster(folder, nodes=1, gpus=0, accounting=False, settings={"MinJobAge": "2"}) as cluster:
        yield cluster


@pytest.fixture
async def place(tmp_path: Path, cluster: SlurmCluster) -> AsyncIterator[SlurmPlace]:
    with AgentListener({"shell": "sleep 1000"}) as listener:
        made = SlurmPlace(tmp_path, listener, cluster)
        yield made
        for backend in made.backends:
            await backend.close()


@pytest.mark.timeout(200)
async def test_a_job_that_the_controller_has_forgotten_counts_as_ended(place: SlurmPlace) -> None:
    account = await place.backend.check()
    assert "without accounting" in account.message
    handle = await start(place)
    place.cluster.run("scancel", place.job_id(handle))
    gone = await wait_for_state(place, handle, MachineState.GONE)
    assert "cancelled" in gone.detail
    for _ in range(int(FORGET_LIMIT_S)):
        if not place.cluster.run("squeue", "-h", "-t", "all", "-o", "%i").split():
            break
        await asyncio.sleep(1)
    restarted = place.fresh_backend()
    assert (await restarted.probe(handle)).state is MachineState.GONE
    assert (await restarted.probe(Handle(name=handle.name))).state is MachineState.ABSENT
    assert await restarted.inventory() == []


async def test_nodes_without_gpus_are_offered(place: SlurmPlace) -> None:
    offers = await place.backend.offers(Resources())
    assert {offer.name for offer in offers} == {"gpu/cpu", "preemptible/cpu"}
    assert all(offer.gpu_count == 0 for offer in offers)
