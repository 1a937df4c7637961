"""Build the objects of an attempt: a Job with one pod, and a Secret with the agent's ticket that the Job owns.

The archive of the agent is the same for all attempts, so it is in one ConfigMap of the namespace.
"""

import base64
import io
import json
import math
import zipfile
from dataclasses import dataclass
from functools import cache
from typing import Any

from anygpu.backends.batch.command import TICKET_FILE, agent_command, ticket_content
from anygpu.backends.contract import LaunchRequest, node_name
from anygpu.backends.kubernetes.nodes import OS_LABEL, SPOT_MARKS
from anygpu.backends.kubernetes.offers import (
    MIN_SPOT_GRACE_S,
    PLACE_LABEL,
    NodePool,
    place_of,
    pool_tolerations,
    requested_amounts,
)
from anygpu.backends.kubernetes.options import KubernetesOptions, parse_pairs
from anygpu.backends.kubernetes.quantities import format_gib, format_quantity
from anygpu.backends.kubernetes.status import CONTAINER
from anygpu.backends.ssh.bootstrap import AgentArchive

Json = dict[str, Any]
MANAGED_BY = "anygpu"
SERVER_LABEL, ATTEMPT_LABEL, JOB_LABEL = "anygpu/server", "anygpu/attempt", "anygpu/job"
NODE_LABEL = "anygpu/node"
AGENT_FILE = "anygpu-agent.pyz"
# Beneath /mnt, because every image may have other directories there.
AGENT_DIR, TICKET_DIR, ATTEMPT_DIR, CACHE_DIR = (
    f"/mnt/anygpu/{name}" for name in ("agent", "ticket", "attempt", "cache")
)
DEADLINE_SLACK_S = 600  # the agent stops the job itself earlier
# A pod that requests no GPU must not use those of other pods. If NVIDIA's runtime is the default of a node, it gives a
# container what NVIDIA_VISIBLE_DEVICES says, and most images with CUDA set it to "all".
NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "void", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """Everything that the objects of one pod depend on."""

    launch: LaunchRequest
    pool: NodePool
    options: KubernetesOptions
    namespace: str
    server_tag: str
    agent_name: str  # of the ConfigMap
    node: int = 0  # the rank of the pod in a gang

    @property
    def name(self) -> str:
        return node_name(self.launch.name, self.node)

    @property
    def grace_s(self) -> float:
        """The seconds from SIGTERM to SIGKILL. A spot node gives no more than its provider does."""
        spot = self.pool.first.spot
        wanted = self.options.grace_s if spot is None else min(self.options.grace_s, spot.notice_s)
        return max(MIN_SPOT_GRACE_S, wanted)

    @property
    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/managed-by": MANAGED_BY,
            SERVER_LABEL: self.server_tag,
            ATTEMPT_LABEL: self.launch.name,
            JOB_LABEL: self.launch.job_id,
            NODE_LABEL: str(self.node),
            PLACE_LABEL: place_of(self.pool),
        }


def build_job(plan: PodPlan) -> Json:
    options, launch = plan.options, plan.launch
    run_s = launch.max_run_s if launch.max_run_s is not None else options.max_run_s
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": plan.labels},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": math.ceil(run_s + options.schedule_limit_s + DEADLINE_SLACK_S),
            "ttlSecondsAfterFinished": math.ceil(options.keep_s),
            "template": {"metadata": {"labels": plan.labels}, "spec": _pod_spec(plan)},
        },
    }


def build_secret(plan: PodPlan, ticket: Json, owner_uid: str) -> Json:
    """Return the Secret with `ticket.json`. Kubernetes removes it with the Job that owns it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": plan.name, "uid": owner_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": plan.labels,
            "ownerReferences": [owner],
        },
        "data": {TICKET_FILE: base64.b64encode(json.dumps(ticket).encode()).decode()},
    }


def build_ticket(plan: PodPlan) -> Json:
    in_image = bool(plan.launch.image)
    return ticket_content(plan.launch, plan.node, sigterm_notice_s=plan.grace_s, in_image=in_image)


def build_agent_map(archive: AgentArchive, namespace: str, server_tag: str) -> Json:
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY, SERVER_LABEL: server_tag}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": agent_map_name(archive, server_tag), "namespace": namespace, "labels": labels},
        "immutable": True,
        "binaryData": {AGENT_FILE: base64.b64encode(compress_archive(archive.data)).decode()},
    }


def agent_map_name(archive: AgentArchive, server_tag: str) -> str:
    return f"anygpu-agent-{server_tag}-{archive.sha256[:12]}"


def agent_maps_of(job: Json) -> list[str]:
    """Return the names of the ConfigMaps from which the pod of a Job starts its agent."""
    volumes = job["spec"]["template"]["spec"].get("volumes") or []
    return [volume["configMap"]["name"] for volume in volumes if volume.get("configMap")]


@cache
def compress_archive(data: bytes) -> bytes:
    """Return the agent's archive with compressed members. A ConfigMap holds at most 1 MiB."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as source,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for member in source.infolist():
            target.writestr(member.filename, source.read(member), compresslevel=9)
    return packed.getvalue()


def _pod_spec(plan: PodPlan) -> Json:
    options = plan.options
    optional = {
        "affinity": _affinity(plan.pool),
        "priorityClassName": options.priority_class,
        "serviceAccountName": options.service_account,
        "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
        "securityContext": _pod_security(options),
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": bool(options.service_account),
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(plan.grace_s),
        "nodeSelector": {**plan.pool.first.pool_labels, **parse_pairs(options.node_selector)},
        "tolerations": pool_tolerations(plan.pool, options, gpus=_gpu_count(plan.launch)),
        "containers": [_container(plan)],
        "volumes": _volumes(plan),
        **{name: value for name, value in optional.items() if value},
    }


def _affinity(pool: NodePool) -> Json:
    """Keep the pod off Windows nodes, and the pod of an offer that cannot be interrupted off spot nodes.

    Not every provider labels or taints the other nodes, so the labels of the pool may match these nodes too.
    """
    kept_off = [(OS_LABEL, "windows")]
    if not pool.is_spot:
        kept_off += [(mark.key, mark.value) for mark in SPOT_MARKS]
    rules = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in kept_off]
    terms = {"nodeSelectorTerms": [{"matchExpressions": rules}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _pod_security(options: KubernetesOptions) -> Json:
    if options.run_as_user is None:
        return {}
    user = options.run_as_user
    return {"runAsUser": user, "runAsGroup": user, "fsGroup": user, "runAsNonRoot": True}


def _container_security(options: KubernetesOptions) -> Json:
    """Return what the container may do. With `run_as_user`, it keeps the Pod Security Standard "restricted"."""
    security: Json = {"allowPrivilegeEscalation": False, "seccompProfile": {"type": "RuntimeDefault"}}
    return security if options.run_as_user is None else {**security, "capabilities": {"drop": ["ALL"]}}


def _container(plan: PodPlan) -> Json:
    options = plan.options
    ticket = f"cp {TICKET_DIR}/{TICKET_FILE} {ATTEMPT_DIR}/{TICKET_FILE}"
    command = agent_command(f"{AGENT_DIR}/{AGENT_FILE}", ATTEMPT_DIR)
    return {
        "name": CONTAINER,
        "image": plan.launch.image or options.image,
        "command": ["/bin/sh", "-c", f"umask 077; {ticket} && {{ {command}; }}"],
        "env": [{"name": name, "value": value} for name, value in _environment(plan).items()],
        "workingDir": ATTEMPT_DIR,
        "resources": _resources(plan),
        "securityContext": _container_security(options),
        # The end of the output of a container that failed is then part of the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(options),
    }


def _environment(plan: PodPlan) -> dict[str, str]:
    caches = {"ANYGPU_CACHE_DIR": f"{CACHE_DIR}/files", "XDG_CACHE_HOME": CACHE_DIR}
    environment = caches if plan.options.cache_claim else {}
    return environment if _gpu_count(plan.launch) else {**environment, **NO_GPUS}


def _resources(plan: PodPlan) -> Json:
    """Return requests and limits. CPUs have no limit: a job may use what is idle."""
    amounts = requested_amounts(plan.launch.resources, plan.options)
    gib = {"memory", "ephemeral-storage"}
    quantities = {
        name: format_gib(value / 2**30) if name in gib else format_quantity(value)
        for name, value in amounts.items()
        if name != "pods"
    }
    limited = {"memory", plan.options.gpu_resource}
    limits = {name: value for name, value in quantities.items() if name in limited}
    return {"requests": quantities, **({"limits": limits} if limits else {})}


def _volumes(plan: PodPlan) -> list[Json]:
    options = plan.options
    shared = {"medium": "Memory", "sizeLimit": format_gib(options.shared_memory_gib)}
    volumes: list[Json] = [
        {"name": "agent", "configMap": {"name": plan.agent_name}},
        {"name": "ticket", "secret": {"secretName": plan.name}},
        {"name": "attempt", "emptyDir": {}},
        {"name": "shared-memory", "emptyDir": shared},
    ]
    if options.cache_claim:
        volumes.append({"name": "cache", "persistentVolumeClaim": {"claimName": options.cache_claim}})
    return volumes


def _mounts(options: KubernetesOptions) -> list[Json]:
    mounts: list[Json] = [
        {"name": "agent", "mountPath": AGENT_DIR, "readOnly": True},
        {"name": "ticket", "mountPath": TICKET_DIR, "readOnly": True},
        {"name": "attempt", "mountPath": ATTEMPT_DIR},
        {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108
    ]
    return [*mounts, {"name": "cache", "mountPath": CACHE_DIR}] if options.cache_claim else mounts


def _gpu_count(launch: LaunchRequest) -> int:
    return launch.resources.gpu.count if launch.resources.gpu else 0
