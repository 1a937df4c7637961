"""The backend on a real Kubernetes control plane, with real agents in pods: the contract, and each way to end."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from lightkube import Client
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Node, Pod
from lightkube.types import CascadeType
from scripts.clusters.kubernetes import ControlPlane
from tests.clusters.kubernetes.conftest import StartNode
from tests.clusters.kubernetes.place import KubernetesPlace

from anygpu.backends.contract import MachineState, SupportsAccountCheck, SupportsNativeRequest
from anygpu.backends.kubernetes.attempts import KubernetesBackend
from anygpu.backends.kubernetes.cluster import AccessDenied, AnswerLost, Cluster
from anygpu.errors import BackendUnavailable, LaunchError, LaunchRefused
from anygpu.events.facts import Blame
from anygpu.events.offers import Handle
from anygpu.spec.sections import Gpu, Resources
from anygpu.testing.contracts.backend import (
    BackendContract,
    first_free_offer,
    new_launch,
    wait_for_state,
    wait_until,
)
from anygpu.testing.servers.agent_listener import AgentListener


@pytest.fixture
def work() -> dict[str, object]:
    return {"shell": "echo on; sleep 1000"}


@pytest.fixture
async def place(
    control_plane: ControlPlane, admin: Client, namespace: str, start_node: StartNode, work: dict[str, object]
) -> AsyncIterator[KubernetesPlace]:
    with AgentListener(work) as listener:
        made = KubernetesPlace(listener, control_plane, admin, namespace, start_node(f"node-{namespace}"))
        yield made
        for backend in made.backends:
            for handle in await backend.inventory():
                await backend.terminate(handle)
            await backend.close()


async def launch_running(place: KubernetesPlace, number: int = 1) -> Handle:
    handle = await place.backend.launch(new_launch(place, number), await first_free_offer(place))
    await wait_until(lambda: place.count_agents() == number and b"on" in place.listener.output)
    await wait_for_state(place, handle, MachineState.RUNNING)
    return handle


class TestKubernetes(BackendContract):
    async def test_it_supports_its_capabilities(self, place: KubernetesPlace) -> None:
        assert isinstance(place.backend, SupportsAccountCheck)
        assert isinstance(place.backend, SupportsNativeRequest)
        account = await place.backend.check()
        assert account.valid, account.message
        assert "1 node, 1 × Tesla-T4" in account.message

    async def test_nothing_is_left_in_the_cluster(self, place: KubernetesPlace) -> None:
        handle = await launch_running(place)
        assert {each.split()[0] for each in place.objects()} == {"Job", "Pod", "Secret", "ConfigMap"}
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)
        await wait_until(lambda: place.objects() == [])

    async def test_a_restarted_server_finds_its_attempt_and_removes_everything(
        self, place: KubernetesPlace
    ) -> None:
        handle = await launch_running(place)
        await place.backend.close()
        place.backend = place.fresh_backend()
        assert [each.name for each in await place.backend.inventory()] == [handle.name]
        await wait_for_state(place, Handle(name=handle.name), MachineState.RUNNING)
        await place.backend.terminate(Handle(name=handle.name))
        await wait_for_state(place, Handle(name=handle.name), MachineState.GONE)
        await wait_until(lambda: place.objects() == [])

    async def test_the_shown_request_is_the_one_that_is_sent(self, place: KubernetesPlace) -> None:
        launch, offer = new_launch(place), await first_free_offer(place)
        job, secret = await place.backend.native_requests(launch, offer)
        assert launch.ticket not in secret.text.replace(launch.name, "")
        handle = await place.backend.launch(launch, offer)
        sent = place.admin.get(Job, launch.name, namespace=place.namespace).to_dict()
        shown = yaml.safe_load(job.text)
        assert shown["metadata"]["labels"].items() <= sent["metadata"]["labels"].items()
        assert shown["spec"]["activeDeadlineSeconds"] == sent["spec"]["activeDeadlineSeconds"]
        pods = [each["spec"]["template"]["spec"] for each in (shown, sent)]
        for field in ("command", "resources", "volumeMounts", "image"):
            assert pods[0]["containers"][0][field] == pods[1]["containers"][0][field]
        await place.backend.terminate(handle)


async def test_two_gpu_jobs_on_one_gpu_are_counted_and_the_second_is_queued(place: KubernetesPlace) -> None:
    need = Resources(gpu=Gpu(count=1))
    offer = next(each for each in await place.backend.offers(need))
    assert (offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.free) == ("Tesla-T4", 1, 15.0, 1)
    first = await place.backend.launch(replace(new_launch(place, 1), resources=need), offer)
    await wait_for_state(place, first, MachineState.RUNNING)
    full = next(each for each in await place.backend.offers(need))
    assert full.free == 0
    assert full.wait_reason.startswith("none of 1 nodes has enough free ")
    second = await place.backend.launch(replace(new_launch(place, 2), resources=need), offer)
    waiting = await place.wait_for(second, lambda seen: "Insufficient nvidia.com/gpu" in seen.detail)
    assert (waiting.state, waiting.queued, waiting.failure) == (MachineState.PENDING, True, None)
    await place.backend.terminate(first)
    await wait_for_state(place, second, MachineState.RUNNING)


async def test_a_job_that_must_not_be_interrupted_never_starts_on_a_spot_node(
    place: KubernetesPlace, start_node: StartNode
) -> None:
    """On GKE, the labels of a pool that is not spot are also on the spot nodes of the same type, without a taint."""
    labels = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"}
    start_node(f"spot-{place.namespace}", labels={**labels, "cloud.google.com/gke-spot": "true"})
    need = Resources(gpu=Gpu(count=1))
    own, spot = sorted(await place.backend.offers(need), key=lambda offer: offer.interruptible)
    assert (own.interruptible, spot.interruptible) == (False, True)
    launches = [replace(new_launch(place, number), resources=need) for number in (1, 2, 3)]
    first = await place.backend.launch(launches[0], own)
    await wait_for_state(place, first, MachineState.RUNNING)
    second = await place.backend.launch(launches[1], own)
    waiting = await place.wait_for(second, lambda seen: "cannot be scheduled" in seen.detail)
    assert waiting.queued
    third = await place.backend.launch(launches[2], spot)
    await wait_for_state(place, third, MachineState.RUNNING)
    assert (await place.backend.probe(second)).queued
    nodes = [place.node_of(launch.name) for launch in launches]
    assert nodes == [f"node-{place.namespace}", "", f"spot-{place.namespace}"]


async def test_a_pod_that_no_node_takes_fails_after_the_limit(place: KubernetesPlace) -> None:
    place.backend = place.fresh_backend(start_limit_s=10)
    launch = replace(new_launch(place), resources=Resources(cpus=500))
    handle = await place.backend.launch(launch, (await place.backend.offers(Resources()))[0])
    failed = await place.wait_for(handle, lambda seen: seen.failure is not None)
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.blame) == ("no_capacity", Blame.LAUNCH)
    assert "Insufficient cpu" in failed.failure.message


async def test_a_gang_that_cannot_be_had_whole_fails_and_leaves_nothing(
    place: KubernetesPlace, start_node: StartNode
) -> None:
    start_node(f"second-of-{place.namespace}")
    place.backend = place.fresh_backend(start_limit_s=10)
    need = Resources(gpu=Gpu(count=1), nodes=2)
    await wait_until_nodes_are_listed(place, 2)
    [free] = await place.backend.offers(need)
    one = replace(new_launch(place, 1), resources=Resources(gpu=Gpu(count=1)))
    other = await place.backend.launch(one, free)
    await wait_for_state(place, other, MachineState.RUNNING)
    [busy] = await place.backend.offers(need)
    assert (free.free, busy.free) == (2, 1)
    # The offer is older than the other job, as if both were planned at the same time.
    gang = await place.backend.launch(replace(new_launch(place, 2), resources=need, nodes=2), free)
    failed = await place.wait_for(gang, lambda seen: seen.failure is not None)
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.blame) == ("no_capacity", Blame.LAUNCH)
    assert "Insufficient nvidia.com/gpu" in failed.failure.message
    await place.backend.terminate(gang)
    await wait_for_state(place, gang, MachineState.GONE)
    await wait_until(lambda: not [each for each in place.objects() if gang.name in each])
    assert (await place.backend.probe(other)).state is MachineState.RUNNING
    await place.backend.terminate(other)
    await wait_for_state(place, other, MachineState.GONE)
    await wait_until(lambda: place.objects() == [])


async def wait_until_nodes_are_listed(place: KubernetesPlace, count: int) -> None:
    """Wait until the cluster has `count` nodes that can run pods."""

    def usable() -> int:
        nodes = place.admin.list(Node)
        return sum(
            bool(node.status and node.status.allocatable and node.spec and not node.spec.taints)
            for node in nodes
        )

    await wait_until(lambda: usable() == count)


async def test_an_image_that_cannot_be_pulled_fails_after_the_limit(place: KubernetesPlace) -> None:
    place.backend = place.fresh_backend(start_limit_s=3600)
    launch = replace(new_launch(place), image="registry.test/bad:1")
    handle = await place.backend.launch(launch, await first_free_offer(place))
    pulling = await place.wait_for(handle, lambda seen: "ImagePullBackOff" in seen.detail)
    assert pulling.failure is None
    place.backend = place.fresh_backend(start_limit_s=10)
    failed = await place.wait_for(handle, lambda seen: seen.failure is not None)
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.blame) == ("image", Blame.USER)
    assert "registry.test/bad:1" in failed.failure.message


async def test_an_eviction_with_the_api_is_a_preemption_and_the_agent_gets_time(
    place: KubernetesPlace,
) -> None:
    place.backend = place.fresh_backend(grace_s=6)
    handle = await launch_running(place)
    place.evict(handle.name)
    taken = await place.wait_for(handle, lambda seen: seen.preempted)
    assert "deleted, and not by this server" in taken.detail
    await wait_until(lambda: bool(place.listener.ends))
    assert place.listener.ends[0]["outcome"] == "stopped"
    assert "the engine sent SIGTERM" in place.listener.ends[0]["message"]
    await wait_for_state(place, handle, MachineState.EXITED)


async def test_an_eviction_under_pressure_is_a_preemption(place: KubernetesPlace) -> None:
    handle = await launch_running(place)
    place.node.evict(place.pod(handle.name), "The node was low on resource: memory.")
    seen = await wait_for_state(place, handle, MachineState.EXITED)
    assert seen.preempted
    assert "Evicted The node was low on resource: memory." in seen.detail


async def test_an_eviction_because_of_the_jobs_own_disk_use_is_not_a_preemption(
    place: KubernetesPlace,
) -> None:
    handle = await launch_running(place)
    place.node.evict(place.pod(handle.name), "Pod ephemeral local storage usage exceeds the total limit")
    seen = await wait_for_state(place, handle, MachineState.EXITED)
    assert not seen.preempted


@pytest.mark.parametrize(("memory_gib", "blame"), [(0, Blame.INFRASTRUCTURE), (1, Blame.USER)])
async def test_out_of_memory_is_the_jobs_fault_only_if_it_has_a_limit(
    place: KubernetesPlace, memory_gib: float, blame: Blame
) -> None:
    place.backend = place.fresh_backend(memory_gib=memory_gib)
    handle = await launch_running(place)
    place.node.kill_out_of_memory(place.pod(handle.name))
    seen = await wait_for_state(place, handle, MachineState.EXITED)
    assert seen.end_cause is not None
    assert (seen.end_cause.code, seen.end_cause.blame, seen.preempted) == ("out_of_memory", blame, False)
    assert "OOMKilled" in seen.end_cause.message


async def test_a_pod_deleted_by_an_administrator_is_a_preemption_and_its_replacement_starts_nothing(
    place: KubernetesPlace,
) -> None:
    handle = await launch_running(place)
    place.admin.delete(Pod, place.pod(handle.name), namespace=place.namespace, grace_period=0)
    await place.wait_for(handle, lambda seen: seen.preempted and seen.state is MachineState.EXITED)
    await place.backend.terminate(handle)
    await wait_for_state(place, handle, MachineState.GONE)
    await wait_until(lambda: place.objects() == [])


async def test_a_job_deleted_by_an_administrator_is_a_preemption(place: KubernetesPlace) -> None:
    place.backend = place.fresh_backend(grace_s=6)
    handle = await launch_running(place)
    place.admin.delete(Job, handle.name, namespace=place.namespace, cascade=CascadeType.BACKGROUND)
    await place.wait_for(handle, lambda seen: seen.preempted)
    await wait_for_state(place, handle, MachineState.GONE)
    await wait_until(lambda: place.objects() == [])


async def test_a_node_that_has_just_joined_is_not_taken_for_a_lost_one(
    place: KubernetesPlace, start_node: StartNode
) -> None:
    offer = await first_free_offer(place)
    place.admin.patch(Node, place.node.name, {"spec": {"unschedulable": True}})
    handle = await place.backend.launch(new_launch(place), offer)  # this lists the nodes
    await place.wait_for(handle, lambda seen: "cannot be scheduled" in seen.detail)
    start_node(f"joined-{place.namespace}")
    seen = await place.wait_for(handle, lambda seen: seen.state is not MachineState.PENDING)
    assert (seen.state, seen.detail) == (
        MachineState.RUNNING,
        f"the pod runs on node joined-{place.namespace}",
    )


async def test_a_node_that_does_not_answer_does_not_keep_an_ended_attempt(place: KubernetesPlace) -> None:
    handle = await launch_running(place)
    place.node.stop(remove=False)
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    place.admin.patch(Node.Status, place.node.name, {"status": {"conditions": [lost]}})
    place.backend = place.fresh_backend()  # it has no older list of nodes
    await place.backend.terminate(handle)
    seen = await place.wait_for(handle, lambda seen: seen.state is MachineState.ABSENT)
    assert "does not answer" in seen.detail
    place.admin.delete(Pod, place.pod(handle.name), namespace=place.namespace, grace_period=0)
    await wait_for_state(place, handle, MachineState.GONE)


async def test_a_pod_that_the_cluster_forbids_fails_after_the_limit(place: KubernetesPlace) -> None:
    place.backend = place.fresh_backend(start_limit_s=10, priority_class="no-such-class")
    handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
    failed = await place.wait_for(handle, lambda seen: seen.failure is not None)
    assert failed.failure is not None
    assert (failed.failure.code, failed.queued) == ("quota", True)
    assert f"describe job --namespace {place.namespace} {handle.name}" in failed.failure.message


class CutsOff(Cluster):
    """A connection that breaks before the requests to create objects of one kind."""

    def __init__(self, cluster: Cluster, kind: str, error: Exception) -> None:
        super().__init__(cluster._config)
        self._kind, self._error = kind, error

    async def create(self, manifest: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        if manifest["kind"] == self._kind:
            raise self._error
        return await super().create(manifest, dry_run=dry_run)


@pytest.mark.parametrize(
    ("kind", "error", "raised"),
    [
        ("Job", BackendUnavailable("connect"), BackendUnavailable),
        ("Secret", BackendUnavailable("connect"), AnswerLost),
        ("Secret", AccessDenied("create secrets"), AccessDenied),
    ],
)
async def test_a_launch_error_leaves_nothing_and_other_errors_say_that_the_attempt_may_run(
    place: KubernetesPlace, kind: str, error: Exception, raised: type[Exception]
) -> None:
    offer = await first_free_offer(place)
    cluster, tracker = place.backend._connection()
    broken = CutsOff(cluster, kind, error)
    place.backend._opened = broken, tracker
    with pytest.raises(raised):
        await place.backend.launch(new_launch(place), offer)
    place.backend._opened = cluster, tracker
    await broken.close()
    left = [each for each in place.objects() if each.startswith("Job")]
    assert bool(left) is not issubclass(raised, LaunchError)
    if left:
        handle = await place.backend.launch(new_launch(place), offer)  # the next try completes it
        await wait_for_state(place, handle, MachineState.RUNNING)


async def test_a_node_that_disappears_takes_its_attempt_with_it_and_nothing_stays(
    place: KubernetesPlace,
) -> None:
    handle = await launch_running(place)
    place.node.stop()
    seen = await place.wait_for(handle, lambda seen: seen.state is MachineState.EXITED)
    assert seen.preempted
    assert "was removed from the cluster" in seen.detail
    await place.backend.terminate(handle)
    await wait_for_state(place, handle, MachineState.GONE)
    await wait_until(lambda: place.objects() == [])


async def test_a_job_ends_without_the_server_at_its_deadline(place: KubernetesPlace) -> None:
    place.backend = place.fresh_backend(grace_s=6)
    handle = await launch_running(place)
    place.admin.patch(Job, handle.name, {"spec": {"activeDeadlineSeconds": 1}}, namespace=place.namespace)
    seen = await place.wait_for(handle, lambda seen: "activeDeadlineSeconds" in seen.detail)
    assert not seen.preempted
    await wait_for_state(place, handle, MachineState.EXITED)


async def test_output_of_a_container_that_failed_before_its_agent_reported_is_in_the_failure(
    place: KubernetesPlace,
) -> None:
    handle = await place.backend.launch(
        replace(new_launch(place), agent_url="http://127.0.0.1:9"), await first_free_offer(place)
    )
    await wait_for_state(place, handle, MachineState.RUNNING)
    [pod] = place.node.running_pods()
    assert pod == place.pod(handle.name)
    place.node.kill_container(pod)
    seen = await wait_for_state(place, handle, MachineState.EXITED)
    assert seen.failure is not None
    assert "exit code 137" in seen.failure.message


async def test_a_cordoned_or_tainted_node_is_not_offered(
    place: KubernetesPlace, start_node: StartNode
) -> None:
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    start_node(f"tainted-{place.namespace}", taints=[taint], labels={"nvidia.com/gpu.product": "NVIDIA-L4"})
    place.admin.patch(Node, place.node.name, {"spec": {"unschedulable": True}})
    offers = {each.gpu_kind: each for each in await place.backend.offers(Resources())}
    assert offers["Tesla-T4"].free == 0
    assert "is cordoned" in offers["Tesla-T4"].wait_reason
    assert offers["NVIDIA-L4"].free == 0
    assert "team=vision:NoSchedule" in offers["NVIDIA-L4"].wait_reason
    tolerant = place.fresh_backend(tolerations=["team=vision"])
    offers = {each.gpu_kind: each for each in await tolerant.offers(Resources())}
    assert offers["NVIDIA-L4"].free == 8


async def test_a_launch_into_a_missing_namespace_is_refused_with_the_reason(place: KubernetesPlace) -> None:
    lost = place.fresh_backend(namespace="no-such-place")
    with pytest.raises(LaunchRefused, match="no-such-place"):
        await lost.launch(new_launch(place), await first_free_offer(place))


async def test_a_name_of_another_server_is_not_taken_over(place: KubernetesPlace) -> None:
    handle = await launch_running(place)
    other = KubernetesBackend("cluster", place.backend._options, secret=b"another server")
    place.backends.append(other)
    with pytest.raises(LaunchRefused, match="not of this backend"):
        await other.launch(new_launch(place), await first_free_offer(place))
    await other.terminate(Handle(name=handle.name))
    assert await other.inventory() == []
    assert f"Job {handle.name}" in place.objects()
    assert not (await place.backend.probe(handle)).preempted
