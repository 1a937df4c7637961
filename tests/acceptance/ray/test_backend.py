"""The Ray backend against a real Ray cluster, with real agents."""

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from scripts.clusters.ray import RayCluster, running_ray, stop_ray

from anygpu.agent.host import processes
from anygpu.backends.contract import LaunchRequest, MachineState
from anygpu.backends.ray.backend import REPORT_LAG_S, RayBackend
from anygpu.backends.ray.options import RayOptions
from anygpu.errors import BackendUnavailable
from anygpu.events.offers import Handle
from anygpu.spec.sections import Resources
from anygpu.testing.contracts.backend import (
    BackendContract,
    first_free_offer,
    new_launch,
    wait_for_state,
    wait_until,
)
from anygpu.testing.servers.agent_listener import AgentListener

pytestmark = [pytest.mark.extended, pytest.mark.timeout(240)]
FOREVER = {"shell": "(setsid sleep 1000 &) ; sleep 1000"}
ONE_GPU = Resources.model_validate({"gpu": 1})


class RayPlace:
    def __init__(self, cluster: RayCluster, listener: AgentListener, folder: Path) -> None:
        self.cluster = cluster
        self.listener = listener
        self.agent_url = listener.url
        self.folder = folder
        self.backend = self.new_backend()

    def new_backend(self, **options: object) -> RayBackend:
        chosen = {"address": self.cluster.address, "directory": str(self.folder / "attempts"), **options}
        return RayBackend("lab", RayOptions.model_validate(chosen), secret=self.agent_url.encode())

    def count_agents(self) -> int:
        return len(self.listener.claims)

    def ask(self, method: str, path: str) -> object:
        request = urllib.request.Request(f"{self.cluster.address}{path}", method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def agent_pid(self, name: str) -> int:
        return int(json.loads((self.folder / "attempts" / name / "agent.json").read_text())["pid"])


@pytest.fixture
async def place(cluster: RayCluster, tmp_path: Path) -> AsyncIterator[RayPlace]:
    with AgentListener(FOREVER) as listener:
        made = RayPlace(cluster, listener, tmp_path)
        yield made
        for handle in await made.backend.inventory():
            await made.backend.terminate(handle)
            await wait_for_state(made, handle, MachineState.GONE, MachineState.ABSENT)
        await made.backend.close()


class TestRay(BackendContract):
    async def test_a_terminated_job_leaves_nothing_in_the_books_of_ray_or_on_the_node(
        self, place: RayPlace
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) >= 3)
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)
        await wait_until(lambda: handle.name not in json.dumps(place.ask("GET", "/api/jobs/")))
        await wait_until(lambda: not processes.processes_by_attempt().get(handle.name))
        await wait_until(lambda: not (place.folder / "attempts" / handle.name).exists())
        assert place.listener.ends[0]["outcome"] == "stopped"

    async def test_free_counts_the_gpus_that_are_left(self, place: RayPlace) -> None:
        [offer] = await self.offers_when_free(place, 2)
        assert (offer.name, offer.gpu_kind, offer.gpu_count, offer.own) == ("2xT4-4cpu", "T4", 2, True)
        for number, left in ((1, 1), (2, 0)):
            handle = await place.backend.launch(gpu_launch(place, number), offer)
            [now] = await place.backend.offers(ONE_GPU)
            assert now.free == left
            await wait_for_state(place, handle, MachineState.RUNNING)
        await asyncio.sleep(REPORT_LAG_S)
        [full] = await self.offers_when_free(place, 0)
        assert full.wait_reason == "0 of 2 T4 GPUs of 1 Ray node are free, the job needs 1 on one node"

    async def test_a_job_that_waits_for_resources_is_pending_and_can_be_ended(self, place: RayPlace) -> None:
        [offer] = await self.offers_when_free(place, 2)
        running = [await place.backend.launch(gpu_launch(place, number), offer) for number in (1, 2)]
        await wait_until(lambda: place.count_agents() == 2)
        third = await place.backend.launch(gpu_launch(place, 3), offer)
        observed = await place.backend.probe(third)
        assert observed.state is MachineState.PENDING
        assert "waiting for resources" in observed.detail
        await place.backend.terminate(third)
        await place.backend.terminate(running[0])
        await wait_for_state(place, third, MachineState.GONE, MachineState.ABSENT, within_s=60)

    async def test_a_killed_agent_is_seen_and_its_job_is_killed(self, place: RayPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) >= 3)
        os.kill(place.agent_pid(handle.name), signal.SIGKILL)
        observed = await wait_for_state(place, handle, MachineState.EXITED)
        assert "failed with exit code -9" in observed.detail
        await wait_until(lambda: [end["outcome"] for end in place.listener.ends] == ["agent_lost"])
        await wait_until(lambda: not processes.processes_by_attempt().get(handle.name))

    async def test_a_job_stopped_by_somebody_else_has_exited(self, place: RayPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) >= 3)
        place.ask("POST", f"/api/jobs/{handle.name}/stop")
        observed = await wait_for_state(place, handle, MachineState.EXITED)
        assert observed.detail == "the Ray job was stopped, and not by anygpu"
        assert [end["outcome"] for end in place.listener.ends] == ["stopped"]
        assert [each.name for each in await place.backend.inventory()] == [handle.name]
        await place.backend.terminate(handle)
        assert await place.backend.inventory() == []
        assert (await place.backend.probe(handle)).state is MachineState.GONE

    async def test_an_agent_that_does_not_start_is_explained_by_the_log_of_the_job(
        self, place: RayPlace
    ) -> None:
        backend = place.new_backend(python="/no/such/python")
        handle = await backend.launch(new_launch(place), await first_free_offer(place))
        await place.backend.close()
        observed = await wait_for_state(replace_backend(place, backend), handle, MachineState.EXITED)
        assert observed.detail.startswith("the node of the Ray job has no Python 3.9 or newer")
        assert observed.failure is not None
        assert "no Python 3.9 or newer was found on this node" in observed.failure.message

    async def test_another_server_does_not_list_these_jobs(self, place: RayPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        other = RayBackend("lab", RayOptions(address=place.cluster.address), secret=b"of another server")
        assert await other.inventory() == []
        assert [each.name for each in await place.backend.inventory()] == [handle.name]
        await other.close()

    async def test_the_check_describes_the_cluster(self, place: RayPlace) -> None:
        status = await place.backend.check()
        assert (status.valid, status.message) == (True, "Ray 2.60.0, 1 node: 1 x 2xT4-4cpu")

    async def offers_when_free(self, place: RayPlace, free: int) -> list:  # type: ignore[type-arg]
        """The offers, once the report of the cluster has caught up with what ended before."""
        for _ in range(300):
            offers = list(await place.backend.offers(ONE_GPU))
            if offers[0].free == free:
                return offers
            await asyncio.sleep(0.1)
        raise AssertionError(f"{offers[0].free} places are free, not {free}")


def gpu_launch(place: RayPlace, number: int) -> LaunchRequest:
    return replace(new_launch(place, number), resources=ONE_GPU)


def replace_backend(place: RayPlace, backend: RayBackend) -> RayPlace:
    place.backend = backend
    return place


async def test_a_restarted_head_has_lost_its_jobs(tmp_path: Path) -> None:
    with (
        AgentListener(FOREVER) as listener,
        running_ray(token="a-token-of-32-characters-or-more-1") as cluster,
    ):
        place = RayPlace(cluster, listener, tmp_path)
        refused = await place.backend.check()
        assert not refused.valid
        assert "credential `token`" in refused.message
        await place.backend.close()
        backend = place.new_backend(token=cluster.token)
        assert (await backend.check()).valid
        launch = new_launch(place)
        handle = await backend.launch(launch, (await backend.offers(launch.resources))[0])
        await wait_until(lambda: place.count_agents() == 1)
        stop_ray(cluster)
        with pytest.raises(BackendUnavailable, match=r"cannot be reached|did not answer"):
            await backend.probe(handle)
        await wait_until(lambda: not processes.processes_by_attempt().get(handle.name))
        await wait_until(lambda: [end["outcome"] for end in listener.ends] == ["agent_lost"])
        with running_ray() as again:
            new = RayBackend("lab", RayOptions(address=again.address), secret=b"s")
            observed = await new.probe(Handle(name=handle.name))
            await new.close()
            assert observed.state is MachineState.ABSENT
            assert "the head node has lost its jobs" in observed.detail
        await backend.close()
