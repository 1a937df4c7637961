"""List the nodes of a cluster and what pods request of them. Callers at the same time share one request."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from anygpu.backends.kubernetes.cluster import ALL_NAMESPACES, AccessDenied, Cluster
from anygpu.backends.kubernetes.nodes import NodeInfo, read_demand, read_node
from anygpu.backends.kubernetes.offers import PLACE_LABEL, ClusterState, PodUse, join_state, sum_use

T = TypeVar("T")


class _Snapshot(Generic[T]):
    """The result of a request that several callers share, with its age."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._lock = asyncio.Lock()
        self._last: tuple[float, T] | None = None

    @property
    def read_at(self) -> float:
        """When the last request was sent, by the monotonic clock."""
        return self._last[0] if self._last else 0.0

    async def get(self, max_age_s: float) -> T:
        asked = time.monotonic()
        async with self._lock:
            if self._last is None or self._last[0] < asked - max_age_s:
                began = time.monotonic()
                self._last = began, await self._read()
            return self._last[1]


@dataclass(frozen=True, slots=True)
class ListedNodes:
    """The nodes of the cluster, without what pods request of them."""

    state: ClusterState
    by_name: Mapping[str, NodeInfo]


class ClusterLists:
    """The nodes and the pods of a cluster, as they were listed last.

    The pods of a large cluster are many megabytes, so nodes alone are listed where they are enough.
    """

    def __init__(self, connect: Callable[[], Cluster], gpu_resource: str) -> None:
        self._connect = connect
        self._gpu_resource = gpu_resource
        self._nodes = _Snapshot(self._list_nodes)
        self._use = _Snapshot(self._list_use)
        self._launched: list[tuple[float, str]] = []  # when, and the place of a pod that is not listed yet

    async def nodes(self, max_age_s: float) -> ListedNodes:
        """Return the nodes of the cluster, at most `max_age_s` old."""
        return await self._nodes.get(max_age_s)

    async def state(self, max_age_s: float) -> ClusterState:
        """Return the nodes and what pods request of them, at most `max_age_s` old."""
        nodes, use = await asyncio.gather(self._nodes.get(max_age_s), self._use.get(max_age_s))
        self._launched = [each for each in self._launched if each[0] >= self._use.read_at]
        return join_state(nodes.state.nodes, use, [place for _, place in self._launched])

    def add_launched(self, place: str, pods: int) -> None:
        """Count pods that were just created, until a list has them."""
        self._launched += [(time.monotonic(), place)] * pods

    async def _list_nodes(self) -> ListedNodes:
        nodes, _ = await self._connect().list_objects(
            "Node", keep=lambda node: read_node(node, self._gpu_resource)
        )
        return ListedNodes(ClusterState(tuple(nodes), None, {}), {node.name: node for node in nodes})

    async def _list_use(self) -> PodUse | None:
        """Return what the pods of all namespaces request; None if the backend may not list them."""
        try:
            demands, _ = await self._connect().list_objects(
                "Pod", ALL_NAMESPACES, keep=lambda pod: read_demand(pod, PLACE_LABEL), unfinished=True
            )
        except AccessDenied:
            return None
        return sum_use(demands)
