"""The contract of backends against a real Slurm, with local commands and over SSH to a login node."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from scripts.clusters.slurm import HIGH, LOW, SlurmCluster

from anygpu.agent.host import processes
from anygpu.backends.contract import (
    LaunchRequest,
    MachineState,
    SupportsAccountCheck,
    SupportsDelivery,
    SupportsNativeRequest,
)
from anygpu.backends.slurm.backend import SlurmBackend, open_shell
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.shell import ClusterOutcomeUnknown, LocalShell, ShellResult
from anygpu.backends.ssh.connection import SshTiming
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.errors import BackendUnavailable, LaunchRefused
from anygpu.events.facts import Blame
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Gpu, Resources
from anygpu.testing.contracts.backend import (
    BackendContract,
    first_free_offer,
    new_launch,
    wait_for_state,
    wait_until,
)
from anygpu.testing.servers.agent_listener import AgentListener
from anygpu.testing.servers.cuttable_proxy import CuttableProxy
from anygpu.testing.servers.ssh_host import open_ssh_host

NUMBERS = itertools.count(1)
QUICK = SshTiming(tries=2, retry_interval_s=0.1, connect_s=5, keepalive_s=1, max_retry_s=0.4)


class SlurmPlace:
    """A Slurm backend under test: `local` runs the commands here, else they run on a login node over SSH."""

    def __init__(self, root: Path, listener: AgentListener, cluster: SlurmCluster, **options: Any) -> None:
        self.root, self.listener, self.cluster = root, listener, cluster
        # The suite derives the names of attempts from the URL, and Slurm remembers names longer than the OS ports.
        self.agent_url = listener.url + "/" * next(NUMBERS)
        self.options = {"poll_s": 0.2, "directory": str(root / "shared"), **options}
        self.wire: CuttableProxy | None = None
        self.changes: list[str] = []
        self.backends: list[SlurmBackend] = []
        self.backend = self.fresh_backend()

    def fresh_backend(self, secret: bytes = b"one server's secret", **more: Any) -> SlurmBackend:
        options = SlurmOptions(**{**self.options, **more})
        pins = HostKeyStore(self.root / "pins")
        shell = (
            LocalShell(self.cluster.variables)
            if options.host is None
            else open_shell("lab", options, pins, QUICK)
        )
        made = SlurmBackend(
            "lab",
            options,
            secret=secret,
            agent_target=("127.0.0.1", int(self.listener.url.rpartition(":")[2])),
            shell=shell,
            on_change=self.changes.append,
        )
        self.backends.append(made)
        return made

    def count_agents(self) -> int:
        return len(self.listener.claims)

    def job_id(self, handle: Handle) -> str:
        return str(handle.native["job"])


@pytest.fixture
def work() -> dict[str, object]:
    return {"shell": "sleep 1000"}


@pytest.fixture(params=["local", "ssh"])
async def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    work: dict[str, object],
    cluster: SlurmCluster,
    login_path: tuple[str, ...],
) -> AsyncIterator[SlurmPlace]:
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(AgentListener(work))
        made: SlurmPlace
        if request.param == "local":
            made = SlurmPlace(tmp_path, listener, cluster)
        else:
            node = await stack.enter_async_context(
                open_ssh_host("asyncssh", tmp_path / "home", path=login_path)
            )
            wire = await stack.enter_async_context(CuttableProxy(node.port))
            login = {"host": f"{node.user}@127.0.0.1:{wire.port}", "private_key": node.key.private_openssh}
            made = SlurmPlace(tmp_path, listener, cluster, **login)
            made.wire = wire
        yield made
        for backend in made.backends:
            await backend.close()
        cluster.clean()
        for number in (1, 2, 3):
            processes.kill_attempt(new_launch(made, number).name)


class TestSlurm(BackendContract):
    async def test_the_slurm_backend_supports_its_capabilities(self, place: SlurmPlace) -> None:
        backend = place.backend
        assert isinstance(backend, SupportsAccountCheck)
        assert isinstance(backend, SupportsDelivery)
        assert isinstance(backend, SupportsNativeRequest)
        account = await backend.check()
        assert account.valid, account.message
        assert f"{HIGH}/t4x2: 3 of 3 nodes usable, no time limit" in account.message
        assert f"{LOW}/t4x2: 3 of 3 nodes usable, no time limit, preemptible" in account.message

    async def test_offers_describe_partitions_with_their_gpus(self, place: SlurmPlace) -> None:
        backend = place.fresh_backend(gpu_prices=("t4=350000",))
        high, low = await backend.offers(Resources(gpu=Gpu(count=2, kind="T4")))
        assert (high.name, high.gpu_kind, high.gpu_count, high.cpus) == (f"{HIGH}/t4x2", "T4", 2, 8)
        assert (high.interruptible, low.interruptible, high.own) == (False, True, True)
        assert (high.price_microusd_per_hour, high.free, high.expected_wait_s) == (700_000, None, 0)

    async def test_the_shown_request_is_the_one_that_runs_and_has_no_ticket(self, place: SlurmPlace) -> None:
        launch, offer = gpu_launch(place, 1), await first_free_offer(place)
        (request,) = await place.backend.native_requests(launch, offer)
        handle = await place.backend.launch(launch, offer)
        sent = place.cluster.run("scontrol", "write", "batch_script", place.job_id(handle), "-")
        assert sent.strip() == request.text.strip()
        assert "ticket" not in request.text
        assert "#SBATCH --gres=gpu:t4:1" in request.text
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)

    async def test_an_admins_scancel_is_reported_with_its_reason(self, place: SlurmPlace) -> None:
        handle = await start(place)
        place.cluster.run("scancel", place.job_id(handle))
        gone = await wait_for_state(place, handle, MachineState.GONE)
        assert "it was cancelled with scancel" in gone.detail
        assert not gone.preempted
        assert gone.started_at_ms is not None
        assert gone.ended_at_ms is not None

    async def test_a_requeued_job_ends_as_preempted_and_never_runs_again(self, place: SlurmPlace) -> None:
        handle = await start(place)
        job = place.job_id(handle)
        place.cluster.run("scontrol", "update", f"JobId={job}", "Requeue=1")
        place.cluster.run("scontrol", "requeue", job)
        seen = await wait_for_state(place, handle, MachineState.EXITED)
        assert seen.preempted
        assert "back into its queue" in seen.detail
        place.cluster.start_now(job)
        await wait_for_state(place, handle, MachineState.GONE)  # the script cancels its own job
        assert place.count_agents() == 1

    async def test_a_preempted_job_is_told_apart(self, place: SlurmPlace) -> None:
        low = next(offer for offer in await place.backend.offers(Resources()) if offer.interruptible)
        need = Resources(gpu=Gpu(count=2, kind="t4"), cpus=8)
        handles = [await place.backend.launch(gpu_launch(place, n, need), low) for n in (1, 2, 3)]
        await wait_until(lambda: place.count_agents() == 3)
        place.cluster.run(
            "sbatch", "-p", HIGH, "--gres=gpu:t4:2", "-c", "8", "-o", "/dev/null", "--wrap", "sleep 5"
        )
        await wait_until_any_gone(place, handles)
        observed = [await place.backend.probe(handle) for handle in handles]
        assert [each.preempted for each in observed].count(True) == 1
        assert "higher priority" in next(each.detail for each in observed if each.preempted)

    async def test_a_failed_node_is_told_apart(self, place: SlurmPlace) -> None:
        handle = await start(place)
        node = place.cluster.run("squeue", "-h", "-j", place.job_id(handle), "-o", "%N").strip()
        place.cluster.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        gone = await wait_for_state(place, handle, MachineState.GONE)
        assert "its node failed or was set down" in gone.detail

    async def test_a_job_that_cannot_start_its_agent_gives_the_log(self, place: SlurmPlace) -> None:
        broken = place.fresh_backend(setup=("echo the module system is broken >&2", "exit 3"))
        place.backend = broken
        handle = await broken.launch(new_launch(place), await first_free_offer(place))
        gone = await wait_for_state(place, handle, MachineState.GONE)
        assert gone.failure is not None
        assert gone.failure.blame is Blame.LAUNCH
        assert "exit code 3" in gone.failure.message
        assert "the module system is broken" in gone.failure.message

    async def test_a_node_without_python_is_told_apart(self, place: SlurmPlace) -> None:
        place.backend = place.fresh_backend(python="/nowhere/python3")
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        gone = await wait_for_state(place, handle, MachineState.GONE)
        assert gone.failure is not None
        assert gone.failure.code == "no_python"

    async def test_a_full_cluster_queues_the_job_and_tells_the_expected_wait(self, place: SlurmPlace) -> None:
        place.cluster.run(
            "sbatch", "-N", "3", "--exclusive", "-t", "10", "-o", "/dev/null", "--wrap", "sleep 600"
        )
        await wait_until(lambda: "alloc" in place.cluster.run("sinfo", "-h", "-o", "%t"))
        backend = place.fresh_backend(partitions=(HIGH,))
        (offer,) = await backend.offers(Resources())
        assert (offer.free, offer.wait_reason) == (None, "all its nodes are busy")
        assert 300 < offer.expected_wait_s < 900
        handle = await backend.launch(new_launch(place), offer)
        observed = await backend.probe(handle)
        assert (observed.state, observed.queued) == (MachineState.PENDING, True)
        assert observed.started_at_ms is None
        await backend.terminate(handle)
        gone = await wait_for_state(place, handle, MachineState.GONE)
        assert gone.started_at_ms == gone.ended_at_ms  # it never ran, so nothing is billed

    async def test_a_refused_request_says_what_to_correct(self, place: SlurmPlace) -> None:
        backend = place.fresh_backend(constraint="nosuchfeature")
        account = await backend.check()
        assert not account.valid
        assert "Invalid feature specification" in account.message
        offers = await backend.offers(Resources())
        assert offers
        assert all("Invalid feature specification" in offer.refused for offer in offers)
        with pytest.raises(LaunchRefused, match=r"Invalid feature specification.*constraint"):
            await backend.launch(new_launch(place), await first_free_offer(place))
        missing = await place.fresh_backend(partitions=("nosuch",)).check()
        assert (
            f"the partition nosuch does not exist or may not be used; there are: {HIGH}, {LOW}"
            in missing.message
        )

    async def test_drained_nodes_and_maintenance_are_not_offered(self, place: SlurmPlace) -> None:
        place.cluster.run("scontrol", "update", "NodeName=n[1-3]", "State=DRAIN", "Reason=test")
        drained = await place.fresh_backend().offers(Resources())
        assert all(offer.is_full and "drained" in offer.wait_reason for offer in drained)
        place.cluster.clean()
        place.cluster.reserve("now+2hours")
        for offer in await place.fresh_backend().offers(Resources()):
            assert 6_600 <= (offer.max_run_s or 0) <= 7_200
            assert offer.self_expires == "max_duration"

    async def test_reports_of_a_dead_agent_are_delivered_from_the_login_node(self, place: SlurmPlace) -> None:
        handle = await start(place)
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) >= 2)
        processes.kill_attempt(handle.name)
        assert place.listener.ends == []
        await place.backend.terminate(handle)
        await place.backend.deliver(Handle(name=handle.name))  # at once, as the control loop does
        await wait_until(lambda: len(place.listener.ends) == 1, within_s=60)
        assert place.listener.ends[0]["outcome"] == "agent_lost"

    async def test_servers_that_share_a_cluster_do_not_see_each_others_attempts(
        self, place: SlurmPlace
    ) -> None:
        handle = await start(place)
        other = place.fresh_backend(secret=b"another server's")
        assert await other.inventory() == []
        assert [each.name for each in await place.backend.inventory()] == [handle.name]

    async def test_one_query_serves_all_attempts(self, place: SlurmPlace) -> None:
        offer = await first_free_offer(place)
        handles = [await place.backend.launch(new_launch(place, n), offer) for n in (1, 2, 3)]
        for handle in handles:  # right after a submission, no probe asks for the queue
            await wait_for_state(place, handle, MachineState.RUNNING)
        backend = place.fresh_backend(poll_s=300)
        observed = await asyncio.gather(*(backend.probe(handle) for handle in handles * 50))
        assert {each.state for each in observed} == {MachineState.RUNNING}
        assert backend._queries.queue_count == 1

    async def test_two_slurm_jobs_of_one_attempt_become_one(self, place: SlurmPlace) -> None:
        launch, offer = new_launch(place), await first_free_offer(place)
        handle = await place.backend.launch(launch, offer)
        script = Path(place.options["directory"]).rglob("job.sh")
        place.cluster.run("sbatch", str(next(script)))
        await wait_for_state(place, handle, MachineState.RUNNING)
        for _ in range(100):
            await place.backend.probe(handle)
            if len(place.cluster.jobs()) == 1:
                break
            await asyncio.sleep(0.1)
        # Which of them stays depends on which agent started first.
        assert len(place.cluster.jobs()) == 1
        assert place.count_agents() <= 1


class TestLostConnections:
    async def test_a_submission_whose_answer_is_lost_is_not_repeated(
        self, tmp_path: Path, cluster: SlurmCluster, work: dict[str, object]
    ) -> None:
        with AgentListener(work) as listener:
            place = SlurmPlace(tmp_path, listener, cluster)
            place.backend._shell = LosesAnswers(cluster)
            launch, offer = new_launch(place), await first_free_offer(place)
            with pytest.raises(ClusterOutcomeUnknown):
                await place.backend.launch(launch, offer)
            place.backend._shell = LocalShell(cluster.variables)
            handle = await place.backend.launch(launch, offer)
            assert cluster.jobs() == [place.job_id(handle)]
            await place.backend.terminate(handle)
            await place.backend.close()

    async def test_an_unreachable_login_node_ends_nothing(
        self, tmp_path: Path, cluster: SlurmCluster, login_path: tuple[str, ...], work: dict[str, object]
    ) -> None:
        with AgentListener(work) as listener:
            async with (
                open_ssh_host("asyncssh", tmp_path / "home", path=login_path) as node,
                CuttableProxy(node.port) as wire,
            ):
                login = {
                    "host": f"{node.user}@127.0.0.1:{wire.port}",
                    "private_key": node.key.private_openssh,
                }
                place = SlurmPlace(tmp_path, listener, cluster, **login)
                handle = await start(place)
                wire.take_down()
                await asyncio.sleep(0.3)
                with pytest.raises((BackendUnavailable, ClusterOutcomeUnknown)):
                    await place.backend.probe(handle)
                wire.bring_up()
                assert await first_answer(place, handle) is MachineState.RUNNING
                await place.backend.terminate(handle)
                await wait_for_state(place, handle, MachineState.GONE)
                await place.backend.close()

    async def test_a_controller_that_does_not_answer_is_reported(self, tmp_path: Path) -> None:
        conf = tmp_path / "slurm.conf"
        conf.write_text("ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=9\nNodeName=n1\n")
        with AgentListener({}) as listener:
            options = SlurmOptions(directory=str(tmp_path))
            shell = LocalShell({"SLURM_CONF": str(conf), "SLURM_MSG_TIMEOUT": "1"})
            backend = SlurmBackend("lab", options, secret=b"s", agent_target=("127.0.0.1", 9), shell=shell)
            assert listener.claims == []
            with pytest.raises(BackendUnavailable, match="Slurm did not answer on the server's machine"):
                await backend.probe(Handle(name=f"anygpu-{'ab' * 16}-1"))
            await backend.close()


class LosesAnswers(LocalShell):
    """Runs every program, and loses the answer of those that submit a job."""

    def __init__(self, cluster: SlurmCluster) -> None:
        super().__init__(cluster.variables)

    async def run(self, program: str, data: bytes = b"", *, timeout_s: float = 60) -> ShellResult:
        done = await super().run(program, data, timeout_s=timeout_s)
        if done.output.startswith("submitted"):
            raise ClusterOutcomeUnknown("the connection was lost")
        return done


def gpu_launch(place: SlurmPlace, number: int, need: Resources | None = None) -> LaunchRequest:
    plain = new_launch(place, number)
    return LaunchRequest(
        name=plain.name,
        job_id=plain.job_id,
        attempt=plain.attempt,
        ticket=plain.ticket,
        agent_url=plain.agent_url,
        resources=need or Resources(gpu=Gpu(count=1, kind="t4")),
    )


async def start(place: SlurmPlace, offer: Offer | None = None) -> Handle:
    handle = await place.backend.launch(new_launch(place), offer or await first_free_offer(place))
    await wait_for_state(place, handle, MachineState.RUNNING)
    await wait_until(lambda: place.count_agents() == 1)
    return handle


async def first_answer(place: SlurmPlace, handle: Handle) -> MachineState:
    for _ in range(200):
        with contextlib.suppress(BackendUnavailable, ClusterOutcomeUnknown):
            return (await place.backend.probe(handle)).state
        await asyncio.sleep(0.1)
    raise AssertionError("the login node did not answer within the time limit of the test")


async def wait_until_any_gone(place: SlurmPlace, handles: list[Handle]) -> None:
    for _ in range(200):
        states = [(await place.backend.probe(handle)).state for handle in handles]
        if MachineState.GONE in states:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("no Slurm job was preempted within the time limit of the test")
