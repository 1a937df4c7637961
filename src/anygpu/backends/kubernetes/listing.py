"""List the nodes of a cluster and what pods request of them. Callers at the same time share one request."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anygpu.backends.batch.shared_query import SharedQuery
from anygpu.backends.kubernetes.cluster import ALL_NAMESPACES, AccessDenied, Cluster
from anygpu.backends.kubernetes.nodes import NodeInfo, read_demand, read_node
from anygpu.backends.kubernetes.offers import PLACE_LABEL, ClusterState, PodUse, join_state, sum_use


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
        self._nodes = SharedQuery(self._list_nodes)
        self._use = SharedQuery(self._list_use)
        self._launched: list[tuple[float, str]] = []  # when, and the place of a pod that is not listed yet

    async def nodes(self, max_age_s: float) -> ListedNodes:
        """Return the nodes of the cluster, at most `max_age_s` old."""
        return await self._nodes.get(time.monotonic() - max_age_s)

    async def state(self, max_age_s: float) -> ClusterState:
        """Return the nodes and what pods request of them, at most `max_age_s` old."""
        newer_than = time.monotonic() - max_age_s
        nodes, use = await asyncio.gather(self._nodes.get(newer_than), self._use.get(newer_than))
        self._launched = [each for each in self._launched if each[0] >= self._use.result_at]
        return join_state(nodes.state.nodes, use, [place for _, place in self._launched])

    def add_launched(self, place: str, pods: int) -> None:
        """Count pods that were just created, until a list has them."""
        self._launched += [(time.monotonic(), place)] * pods

    async def close(self) -> None:
        await self._nodes.close()
        await self._use.close()

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
