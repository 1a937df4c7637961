"""The example job with checkpoints on Kubernetes: interrupted in each of its ways, it ends with the same model."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from lightkube import Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import Namespace, Node, Pod
from scripts.clusters.kubernetes import ControlPlane
from tests.clusters.kubernetes.conftest import Nodes, make_namespace
from tests.clusters.kubernetes.place import evict_pod
from tests.clusters.kubernetes.product import Product

from anygpu.testing.kubelet.node import Kubelet

pytestmark = pytest.mark.timeout(180)
NAMESPACE = "product"


class Cluster:
    """The product, and the nodes of its cluster. There are always two usable nodes before a test."""

    def __init__(self, product: Product, nodes: Nodes, folder: Path) -> None:
        self.product, self.nodes = product, nodes
        self._folder = folder
        self._count = 0
        self.kubelets = {kubelet.name: kubelet for kubelet in (self.add_node(), self.add_node())}

    def add_node(self) -> Kubelet:
        self._count += 1
        return self.nodes.start(f"worker-{self._count}", self._folder)

    def place(self, job: str) -> tuple[str, str]:
        """Return the pod and the node of a job."""
        pod = self.product.pod(job)
        assert pod.metadata is not None
        assert pod.spec is not None
        return str(pod.metadata.name), str(pod.spec.nodeName)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, control_plane: ControlPlane, nodes: Nodes
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("product")
    admin = Client(config=KubeConfig.from_file(control_plane.kubeconfig), trust_env=False)
    make_namespace(admin, NAMESPACE)
    product = Product(folder, control_plane, admin, NAMESPACE)
    made = Cluster(product, nodes, folder)
    yield made
    product.server.stop()
    for kubelet in made.kubelets.values():
        kubelet.stop()
    admin.delete(Namespace, NAMESPACE)
    admin.close()
    assert "Traceback" not in (log := (folder / "server.log").read_text()), log


@pytest.fixture(scope="module")
def model(cluster: Cluster) -> bytes:
    """The model of a run without interruption."""
    job = cluster.product.submit()
    ended = cluster.product.server.wait(job, "completed", "failed", within_s=60)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["failure"]
    cluster.product.wait_until_empty()
    return cluster.product.model(job)


def evict(cluster: Cluster, pod: str, node: str) -> None:
    evict_pod(cluster.product.admin, pod, NAMESPACE)


def drain(cluster: Cluster, pod: str, node: str) -> None:
    cluster.product.admin.patch(Node, node, {"spec": {"unschedulable": True}})
    evict_pod(cluster.product.admin, pod, NAMESPACE)


def remove_node(cluster: Cluster, pod: str, node: str) -> None:
    cluster.kubelets.pop(node).stop()
    fresh = cluster.add_node()
    cluster.kubelets[fresh.name] = fresh


def delete_pod(cluster: Cluster, pod: str, node: str) -> None:
    cluster.product.admin.delete(Pod, pod, namespace=NAMESPACE)


def delete_pod_by_force(cluster: Cluster, pod: str, node: str) -> None:
    cluster.product.admin.delete(Pod, pod, namespace=NAMESPACE, grace_period=0)


def kill_out_of_memory(cluster: Cluster, pod: str, node: str) -> None:
    cluster.kubelets[node].kill_out_of_memory(pod)


def evict_under_pressure(cluster: Cluster, pod: str, node: str) -> None:
    cluster.kubelets[node].evict(pod, "The node was low on resource: memory.")


@pytest.mark.parametrize(
    ("interrupt", "codes"),
    [
        (evict, {"preempt"}),
        (drain, {"preempt"}),
        (remove_node, {"preempted"}),
        (delete_pod, {"preempt"}),
        (delete_pod_by_force, {"preempted"}),
        (kill_out_of_memory, {"out_of_memory"}),
        (evict_under_pressure, {"preempted"}),
    ],
)
def test_an_interrupted_job_resumes_and_makes_the_same_model(
    cluster: Cluster, model: bytes, interrupt: Callable[[Cluster, str, str], None], codes: set[str]
) -> None:
    product = cluster.product
    job = product.submit("--gpu", "T4")
    product.wait_for_checkpoint(job)
    pod, node = cluster.place(job)
    interrupt(cluster, pod, node)
    ended = product.server.wait(job, "completed", "failed", within_s=120)
    assert ended["status"] == "completed", ended["failure"]
    assert ended["attempt"] == 2
    assert set(product.codes(job)) == codes
    assert product.model(job) == model
    assert "resumed at step" in product.server.anygpu("logs", job)
    product.wait_until_empty()
    if node in cluster.kubelets:
        product.admin.patch(Node, node, {"spec": {"unschedulable": None}})


def test_a_job_that_exceeds_the_memory_it_requested_fails(cluster: Cluster) -> None:
    product = cluster.product
    job = product.submit("--gpu", "T4", "--memory", "1GiB")
    product.wait_for_checkpoint(job)
    pod, node = cluster.place(job)
    kill_out_of_memory(cluster, pod, node)
    ended = product.server.wait(job, "completed", "failed", within_s=120)
    assert (ended["status"], ended["attempt"]) == ("failed", 1)
    assert ended["failure"]["code"] == "out_of_memory"
    assert "exceeded its memory limit" in ended["failure"]["message"]
    product.wait_until_empty()


def test_the_rights_of_the_manifest_are_enough(cluster: Cluster) -> None:
    shown = cluster.product.server.anygpu("backend", "check", "cluster")
    assert "T4" in shown
    assert "missing" not in shown


def test_the_manifests_of_a_launch_are_shown_before_it(cluster: Cluster) -> None:
    shown = cluster.product.server.anygpu(
        "plan", "--native", "--on", "cluster", "job.yaml", cwd=cluster.product.write_job()
    )
    assert "kind: Job" in shown
    assert "backoffLimit: 0" in shown
    assert "(the one-time ticket of the attempt)" in shown


def test_a_cancelled_job_leaves_nothing(cluster: Cluster) -> None:
    product = cluster.product
    job = product.submit()
    product.wait_for_checkpoint(job)
    product.server.anygpu("cancel", job)
    product.server.wait(job, "cancelled", within_s=60)
    product.wait_until_empty()


def test_a_killed_server_finds_its_pod_again(cluster: Cluster, model: bytes) -> None:
    product = cluster.product
    job = product.submit()
    product.wait_for_checkpoint(job)
    product.server.kill()
    product.server.start()
    ended = product.server.wait(job, "completed", "failed", within_s=120)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["failure"]
    assert product.model(job) == model
    product.wait_until_empty()


RANKS = """
import os, time
import anygpu
resume = anygpu.resume_path()
start = int(open(resume).read()) if resume else 0
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "from", start, flush=True)
for step in range(start + 1, 61):
    time.sleep(0.1)
    if os.environ["RANK"] == "0":
        anygpu.log({"value": float(step)}, step=step)
        if step % 10 == 0:
            open("state.txt", "w").write(str(step))
            anygpu.checkpoint("state.txt", step=step)
print("rank", os.environ["RANK"], "done", flush=True)
"""


def submit_gang(product: Product, nodes: int) -> str:
    spec = {
        "code": RANKS,
        "resources": {"gpu": 1, "nodes": nodes},
        "placement": {"allowed": ["cluster"]},
    }
    return str(product.server.ask("POST", "training", spec)["id"])


def test_a_job_on_several_nodes_loses_one_pod_and_all_resume(cluster: Cluster) -> None:
    product = cluster.product
    job = submit_gang(product, 2)
    product.wait_for_checkpoint(job)
    name = f"anygpu-{job.replace('-', '')}-1"
    pods = {
        str(pod.metadata.labels["anygpu/node"]): str(pod.metadata.name)
        for pod in product.admin.list(Pod, namespace=NAMESPACE, labels={"anygpu/attempt": name})
        if pod.metadata and pod.metadata.labels
    }
    assert sorted(pods) == ["0", "1"]
    product.admin.delete(Pod, pods["1"], namespace=NAMESPACE, grace_period=0)
    ended = product.server.wait(job, "completed", "failed", within_s=120)
    assert (ended["status"], ended["attempt"]) == ("completed", 2), ended["failure"]
    logs = product.server.anygpu("logs", job, "--all-ranks")
    assert "rank 1 of 2 from" in logs
    product.wait_until_empty()


def test_a_job_that_needs_more_nodes_than_the_cluster_has_is_refused(cluster: Cluster) -> None:
    with pytest.raises(HTTPError) as refused:
        submit_gang(cluster.product, 9)
    assert "9 machines (resources.nodes)" in refused.value.read().decode()
