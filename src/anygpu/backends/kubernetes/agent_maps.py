"""Keep the archive of the agent in a ConfigMap of each namespace that has attempts."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from anygpu.backends.kubernetes import manifests
from anygpu.backends.kubernetes.cluster import AlreadyExists, Cluster
from anygpu.backends.ssh.bootstrap import agent_archive

Json = dict[str, Any]
MAX_AGE_S = 300.0  # after this time it is created again, in case somebody has deleted it


class AgentMaps:
    """Creates the ConfigMaps of one server before they are needed, and deletes them when no attempt uses them."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._stored_at: dict[str, float] = {}  # by namespace
        self._used: dict[str, set[str]] = {}  # by namespace: the ConfigMaps that ended attempts used
        self._lock = asyncio.Lock()  # a launch must not rely on a ConfigMap that is just being deleted

    async def store(self, cluster: Cluster, namespace: str) -> str:
        """Store the archive of the agent in the namespace, and return the name of its ConfigMap."""
        archive = await agent_archive()
        async with self._lock:
            now = time.monotonic()
            if self._stored_at.get(namespace, -MAX_AGE_S) < now - MAX_AGE_S:
                with contextlib.suppress(AlreadyExists):
                    await cluster.create(manifests.build_agent_map(archive, namespace, self._tag))
                self._stored_at[namespace] = now
        return manifests.agent_map_name(archive, self._tag)

    def remember(self, namespace: str, job: Json) -> None:
        """Remember which ConfigMap the Job of an ending attempt uses. It may be that of an earlier version."""
        self._used.setdefault(namespace, set()).update(manifests.agent_maps_of(job))

    async def remove(self, cluster: Cluster, namespace: str, is_unused: Callable[[], bool]) -> None:
        """Delete the ConfigMaps of a namespace if `is_unused` returns true."""
        # Somebody else may have deleted the last Job, so the current ConfigMap is deleted in any case.
        current = manifests.agent_map_name(await agent_archive(), self._tag)
        async with self._lock:
            if not is_unused():
                return
            self._stored_at.pop(namespace, None)
            for name in self._used.pop(namespace, set()) | {current}:
                await cluster.delete("ConfigMap", name, namespace)
