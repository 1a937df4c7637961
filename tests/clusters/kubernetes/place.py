"""A backend on the real control plane, in a namespace of its own."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from lightkube import Client
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Pod, Secret
from scripts.clusters.kubernetes import ControlPlane

from anygpu.backends.contract import Observation
from anygpu.backends.kubernetes.attempts import KubernetesBackend
from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.events.offers import Handle
from anygpu.testing.kubelet.node import Kubelet
from anygpu.testing.servers.agent_listener import AgentListener


class KubernetesPlace:
    """A backend on the control plane, in a namespace of its own, with one node."""

    def __init__(
        self, listener: AgentListener, plane: ControlPlane, admin: Client, namespace: str, node: Kubelet
    ) -> None:
        self.listener, self.plane, self.admin = listener, plane, admin
        self.agent_url = listener.url
        self.namespace = namespace
        self.node = node
        self.changes: list[str] = []
        self.backends: list[KubernetesBackend] = []
        self.backend = self.fresh_backend()

    def fresh_backend(self, **options: Any) -> KubernetesBackend:
        chosen = {"kubeconfig_path": str(self.plane.kubeconfig), "namespace": self.namespace, **options}
        made = KubernetesBackend(
            "cluster",
            KubernetesOptions(**chosen),
            secret=b"one server's secret",
            on_change=self.changes.append,
        )
        self.backends.append(made)
        return made

    def count_agents(self) -> int:
        return len(self.listener.claims)

    def pod(self, name: str) -> str:
        """Return the name of the pod of an attempt."""
        pods = self.admin.list(Pod, namespace=self.namespace, labels={"anygpu/attempt": name})
        return next(str(pod.metadata.name) for pod in pods if pod.metadata)

    def node_of(self, name: str) -> str:
        """Return the node that has taken the pod of an attempt; empty if none has."""
        pod = self.admin.get(Pod, self.pod(name), namespace=self.namespace)
        return (pod.spec.nodeName or "") if pod.spec else ""

    def evict(self, name: str) -> None:
        """Evict the pod of an attempt with the eviction API, as `kubectl drain` does."""
        evict_pod(self.admin, self.pod(name), self.namespace)

    def objects(self) -> list[str]:
        """Return what exists in the namespace of any server."""
        return list_objects(self.admin, self.namespace)

    async def wait_for(
        self, handle: Handle, holds: Callable[[Observation], bool], within_s: float = 30
    ) -> Observation:
        """Probe until the observation has a property."""
        until = time.monotonic() + within_s
        observed = await self.backend.probe(handle)
        while not holds(observed):
            assert time.monotonic() < until, observed
            await asyncio.sleep(0.05)
            observed = await self.backend.probe(handle)
        return observed


def evict_pod(admin: Client, pod: str, namespace: str) -> None:
    eviction: Any = Pod.Eviction.from_dict({"metadata": {"name": pod, "namespace": namespace}})
    eviction.apiVersion = "policy/v1beta1"  # of Kubernetes 1.20
    eviction.kind = "Eviction"
    admin.create(eviction, pod, namespace=namespace)


def list_objects(admin: Client, namespace: str) -> list[str]:
    kinds: tuple[Any, ...] = (Job, Pod, Secret, ConfigMap)
    return [
        f"{kind.__name__} {thing.metadata.name}"
        for kind in kinds
        for thing in admin.list(kind, namespace=namespace, labels={"anygpu/server": None})
    ]
