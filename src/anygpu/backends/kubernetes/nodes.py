"""Read nodes and the pods on them: which GPUs a node has, whether it can be interrupted, and what is free.

Nodes and pods are JSON objects as the API server sends them. Labels are untrusted text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anygpu.backends.kubernetes.quantities import Amounts, parse_amounts, parse_quantity, sum_amounts

Json = dict[str, Any]

# Labels that name the GPU model. NVIDIA's and AMD's node labellers, GKE, EKS and AKS set them.
PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "amd.com/gpu.product-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "accelerator",
)
MEMORY_LABEL = "nvidia.com/gpu.memory"  # in MiB
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver.major")
INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
OS_LABEL = "kubernetes.io/os"  # kubelets set it; jobs need Linux
# Suffixes that say how a GPU is shared, not which model it is.
SHARED_SUFFIX = "-SHARED"
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class SpotMark:
    """A label by which a provider marks nodes that it may take back, and how many seconds of notice it gives."""

    key: str
    value: str
    notice_s: float


SPOT_MARKS = (
    SpotMark("cloud.google.com/gke-spot", "true", 15),
    SpotMark("cloud.google.com/gke-preemptible", "true", 15),
    SpotMark("eks.amazonaws.com/capacityType", "SPOT", 110),
    SpotMark("karpenter.sh/capacity-type", "spot", 110),
    SpotMark("kubernetes.azure.com/scalesetpriority", "spot", 25),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """What the planner needs to know about a node."""

    name: str
    instance_type: str = ""
    region: str = ""
    zone: str = ""
    product: str = ""  # GPU model as its label says
    gpu_count: int = 0
    gpu_memory_gib: float = 0
    driver: str = ""
    spot: SpotMark | None = None
    allocatable: Amounts = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    problem: str = ""  # why no pod can start there: not ready, cordoned
    is_ready: bool = True  # the node answers the control plane

    @property
    def runs_linux(self) -> bool:
        return self.labels.get(OS_LABEL, "linux") == "linux"

    @property
    def pool_labels(self) -> dict[str, str]:
        """The labels that this node shares with equal nodes, and by which a pod is kept on them."""
        spot_keys = tuple(mark.key for mark in SPOT_MARKS)
        names = (*PRODUCT_LABELS, *INSTANCE_LABELS[:1], *REGION_LABELS[:1], *ZONE_LABELS[:1], *spot_keys)
        return {name: self.labels[name] for name in names if name in self.labels}


def read_node(node: Json, gpu_resource: str) -> NodeInfo:
    metadata, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    labels: dict[str, str] = metadata.get("labels") or {}
    allocatable = parse_amounts(status.get("allocatable"))
    gpu_count = int(allocatable.get(gpu_resource, 0))
    return NodeInfo(
        name=metadata.get("name", ""),
        instance_type=_first(labels, INSTANCE_LABELS),
        region=_first(labels, REGION_LABELS),
        zone=_first(labels, ZONE_LABELS),
        product=_first(labels, PRODUCT_LABELS).removesuffix(SHARED_SUFFIX) if gpu_count else "",
        gpu_count=gpu_count,
        gpu_memory_gib=round(parse_quantity(labels.get(MEMORY_LABEL, "")) / 1024, 1) if gpu_count else 0,
        driver=_first(labels, DRIVER_LABELS),
        spot=next((mark for mark in SPOT_MARKS if labels.get(mark.key) == mark.value), None),
        allocatable=allocatable,
        labels=labels,
        taints=tuple(spec.get("taints") or ()),
        problem=_problem(spec, status),
        is_ready=_is_ready(status),
    )


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _problem(spec: Json, status: Json) -> str:
    if not _is_ready(status):
        return "is not ready"
    return "is cordoned (unschedulable)" if spec.get("unschedulable") else ""


def _is_ready(status: Json) -> bool:
    conditions = status.get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def blocking_taint(node: NodeInfo, tolerations: Sequence[Json]) -> str:
    """Return the first taint that keeps pods with these tolerations off the node; empty if there is none."""
    for taint in node.taints:
        if taint.get("effect") in BLOCKING_EFFECTS and not any(
            tolerates(each, taint) for each in tolerations
        ):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"{taint.get('key', '')}{value}:{taint['effect']}"
    return ""


def tolerates(toleration: Json, taint: Json) -> bool:
    """Return whether a toleration matches a taint, by the rules of Kubernetes."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    exists = toleration.get("operator") == "Exists"
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")


def pod_requests(pod: Json) -> dict[str, float]:
    """Return the resources that the scheduler counts for a pod: of all containers, or of a larger init container."""
    spec = pod.get("spec") or {}
    running = sum_amounts(_container_requests(each) for each in spec.get("containers") or ())
    for initial in spec.get("initContainers") or ():
        for name, value in _container_requests(initial).items():
            running[name] = max(running.get(name, 0.0), value)
    return sum_amounts([running, parse_amounts(spec.get("overhead")), {"pods": 1.0}])


def _container_requests(container: Json) -> dict[str, float]:
    resources = container.get("resources") or {}
    return {**parse_amounts(resources.get("limits")), **parse_amounts(resources.get("requests"))}


def free_amounts(node: NodeInfo, requested: Amounts) -> dict[str, float]:
    return {name: value - requested.get(name, 0.0) for name, value in node.allocatable.items()}


@dataclass(frozen=True, slots=True)
class PodDemand:
    """What a pod requests of its node. The rest of a pod is much larger, and not kept."""

    node: str  # empty: no node has taken the pod yet
    requests: Amounts
    place: str  # the label by which one of our pods names its group of nodes


def read_demand(pod: Json, place_label: str) -> PodDemand:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return PodDemand(
        node=(pod.get("spec") or {}).get("nodeName") or "",
        requests={} if ended else pod_requests(pod),
        place=(pod["metadata"].get("labels") or {}).get(place_label, ""),
    )


def requests_by_node(demands: Iterable[PodDemand]) -> dict[str, dict[str, float]]:
    """Return what the pods on each node request. Pods without a node are under the empty name."""
    sets: dict[str, list[Amounts]] = {}
    for demand in demands:
        sets.setdefault(demand.node, []).append(demand.requests)
    return {name: sum_amounts(each) for name, each in sets.items()}
