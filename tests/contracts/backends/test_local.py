"""The local backend with real agents and real processes."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anygpu.agent.host import processes
from anygpu.backends.contract import MachineState
from anygpu.backends.local import LocalBackend
from anygpu.errors import BackendUnavailable, NoCapacity
from anygpu.events.offers import Handle
from anygpu.testing.contracts.backend import (
    BackendContract,
    first_free_offer,
    new_launch,
    wait_for_state,
    wait_until,
)
from anygpu.testing.servers.agent_listener import AgentListener

FOREVER = "sleep 1000"
DAEMON = "(setsid sleep 1001 &) ; sleep 1000"


class LocalPlace:
    def __init__(self, root: Path, listener: AgentListener, cpus: int = 2) -> None:
        self.root = root
        self.listener = listener
        self.agent_url = listener.url
        self.exits: list[str] = []
        self.backends: list[LocalBackend] = []
        self.backend = self.fresh_backend(cpus)

    def fresh_backend(self, cpus: int = 2) -> LocalBackend:
        made = LocalBackend(
            self.root / "attempts", gpu_locks=self.root / "gpus", cpus=cpus, on_exit=self.exits.append
        )
        self.backends.append(made)
        return made

    def count_agents(self) -> int:
        return len(self.listener.claims)


@pytest.fixture
def work() -> dict[str, object]:
    return {"shell": FOREVER}


@pytest.fixture
async def place(tmp_path: Path, work: dict[str, object]) -> AsyncIterator[LocalPlace]:
    with AgentListener(work) as listener:
        made = LocalPlace(tmp_path, listener)
        yield made
        for name in processes.processes_by_attempt():
            if (made.root / "attempts" / name).is_dir():
                processes.kill_attempt(name)
        for backend in made.backends:
            backend.close()


class TestLocal(BackendContract):
    async def test_a_full_machine_gives_the_reason_and_accepts_a_job_when_a_slot_is_free(
        self, place: LocalPlace
    ) -> None:
        offer = await first_free_offer(place)
        handles = [await place.backend.launch(new_launch(place, n), offer) for n in (1, 2)]
        full = (await place.backend.offers(new_launch(place).resources))[0]
        assert full.free == 0
        assert full.wait_reason == "0 of 2 CPU slots of the server's machine are free, and the job needs 1"
        with pytest.raises(NoCapacity, match="0 of 2 CPU slots"):
            await place.backend.launch(new_launch(place, 3), offer)
        await place.backend.terminate(handles[0])
        await wait_for_state(place, handles[0], MachineState.GONE)
        assert (await place.backend.launch(new_launch(place, 3), offer)).name.endswith("-3")

    async def test_an_agent_outlives_the_server_that_started_it(self, place: LocalPlace) -> None:
        launch = new_launch(place)
        handle = await place.backend.launch(launch, await first_free_offer(place))
        await wait_until(lambda: place.count_agents() == 1)
        restarted = place.fresh_backend()
        assert (await restarted.probe(handle)).state is MachineState.RUNNING
        assert (await restarted.offers(launch.resources))[0].free == 1
        await restarted.terminate(handle)
        place.backend = restarted
        # A killed process keeps its locks for a moment.
        await wait_for_state(place, handle, MachineState.GONE)

    async def test_a_killed_agent_is_reported_at_once_and_its_processes_are_killed(
        self, place: LocalPlace
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        await wait_until((place.root / "attempts" / handle.name / "process.json").exists)
        await place.backend.probe(handle)
        agent = json.loads((place.root / "attempts" / handle.name / "agent.json").read_text())
        os.kill(agent["pid"], signal.SIGKILL)
        await wait_until(lambda: place.exits == [handle.name])
        assert (await wait_for_state(place, handle, MachineState.EXITED, MachineState.GONE)).state in (
            MachineState.EXITED,
            MachineState.GONE,
        )
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.GONE

    async def test_a_private_ticket_is_readable_by_its_owner_only(self, place: LocalPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        directory = place.root / "attempts" / handle.name
        assert oct((directory / "ticket.json").stat().st_mode & 0o777) == "0o600"
        assert oct(directory.stat().st_mode & 0o777) == "0o700"
        await place.backend.terminate(handle)


class TestSeveralServers:
    """Servers on one journal each have a machine called local."""

    @pytest.fixture
    def work(self) -> dict[str, object]:
        return {"shell": FOREVER}

    async def test_a_server_does_not_handle_the_attempts_of_another(
        self, place: LocalPlace, tmp_path: Path
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        other = LocalBackend(tmp_path / "other", gpu_locks=tmp_path / "gpus", single_server=False)
        with pytest.raises(BackendUnavailable, match="was launched by another anygpu server"):
            await other.probe(handle)
        with pytest.raises(BackendUnavailable, match="was launched by another anygpu server"):
            await other.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.RUNNING

    async def test_an_attempt_of_another_server_is_absent_not_gone(
        self, place: LocalPlace, tmp_path: Path
    ) -> None:
        other = LocalBackend(tmp_path / "other", gpu_locks=tmp_path / "gpus", single_server=False)
        assert (await other.probe(Handle(name=new_launch(place).name))).state is MachineState.ABSENT


class TestDaemons:
    @pytest.fixture
    def work(self) -> dict[str, object]:
        return {"shell": DAEMON}

    async def test_a_daemonised_child_dies_with_its_attempt(self, place: LocalPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) >= 3)
        await place.backend.terminate(handle)
        assert handle.name not in processes.processes_by_attempt()
        assert (await place.backend.probe(handle)).state is MachineState.GONE


class TestLocalWithPrewarmedAgent(BackendContract):
    @pytest.fixture(autouse=True)
    async def spare(self, place: LocalPlace) -> None:
        place.backend.prewarm()

    async def test_it_is_found_by_its_name_and_holds_its_slot_until_it_is_ended(
        self, place: LocalPlace
    ) -> None:
        ahead = place.backend._prewarmed._agent
        assert ahead is not None
        launch = new_launch(place)
        handle = await place.backend.launch(launch, await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        await wait_until(
            lambda: len(processes.processes_by_attempt()[launch.name]) == 2
        )  # the agent and the job
        assert ahead.process.pid in processes.processes_by_attempt()[launch.name]
        assert (await place.backend.offers(launch.resources))[0].free == 1
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)
        assert (await place.backend.offers(launch.resources))[0].free == 2

    async def test_a_prewarmed_agent_exits_with_its_server(self, place: LocalPlace) -> None:
        ahead = place.backend._prewarmed._agent
        assert ahead is not None
        place.backend.close()
        assert ahead.process.returncode == 0

    async def test_a_prewarmed_agent_that_died_is_replaced(self, place: LocalPlace) -> None:
        ahead = place.backend._prewarmed._agent
        assert ahead is not None
        ahead.process.kill()
        ahead.process.wait()
        await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: place.count_agents() == 1)
