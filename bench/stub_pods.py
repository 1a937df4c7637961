"""A kubelet whose pods are coroutines: `python -m bench.stub_pods KUBECONFIG NODES GPUS`. Ends with its input.

Each pod reads its ticket from its Secret, as a real one does, and runs a stub agent until the pod is deleted or has
failed.
"""

import asyncio
import base64
import contextlib
import gc
import json
import sys
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2
import uvloop
from lightkube import ApiError, AsyncClient
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import Node, Pod, Secret
from lightkube.types import PatchType

from bench.stub_agent import StubAgent

AT_ONCE = 20  # requests to the API server
RETRY_S = 0.2
HEARTBEAT_S = 5.0


class StubPods:
    """Nodes with room for very many pods."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._pods: dict[str, Pod] = {}
        self._deletions: set[asyncio.Task[None]] = set()

    async def add_node(self, name: str, gpus: int) -> None:
        made: Any = Node.from_dict(
            {"metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "Tesla-T4"}}}
        )
        with contextlib.suppress(ApiError):
            await self._client.create(made)
        room = {
            "cpu": str(2 * gpus),
            "memory": f"{gpus}Gi",
            "pods": str(2 * gpus),
            "nvidia.com/gpu": str(gpus),
        }
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": utc()}
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [{**ready, "lastTransitionTime": utc()}],
        }
        await self._client.patch(Node.Status, name, {"status": status})

    async def send_heartbeats(self, names: Sequence[str], gpus: int) -> None:
        """Report the nodes as ready. The control plane gives up a node that is silent for 20 seconds."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            for name in names:
                with contextlib.suppress(ApiError, httpx2.HTTPError):
                    await self.add_node(name, gpus)

    async def watch(self) -> None:
        async for event, pod in self._client.watch(Pod, namespace="*"):
            if pod.spec is None or not pod.spec.nodeName or pod.metadata is None:
                continue
            uid = str(pod.metadata.uid)
            failed = pod.status is not None and pod.status.phase == "Failed"
            if event == "DELETED" or (failed and pod.metadata.deletionTimestamp is None):
                self._end(uid)
            elif pod.metadata.deletionTimestamp is not None:
                self._end(uid)
                deletion = asyncio.create_task(self._delete(pod))
                self._deletions.add(deletion)
                deletion.add_done_callback(self._deletions.discard)
            elif uid not in self._pods:
                self._pods[uid] = pod
                self._running[uid] = asyncio.create_task(self._run(uid, pod))

    def _end(self, uid: str) -> None:
        if (task := self._running.pop(uid, None)) is not None:
            task.cancel()

    async def _run(self, uid: str, pod: Pod) -> None:
        ticket = await self._ticket(pod)
        now = {"startedAt": utc()}
        status = {"name": "job", "image": "", "imageID": "", "ready": True, "restartCount": 0}
        await self._report(
            pod, {"phase": "Running", "containerStatuses": [{**status, "state": {"running": now}}]}
        )
        await StubAgent(ticket["ticket"], urlsplit(ticket["url"]).port or 0).run()
        await self._report(pod, {"phase": "Succeeded"})

    async def _ticket(self, pod: Pod) -> dict[str, Any]:
        assert pod.metadata is not None
        name = str((pod.metadata.labels or {})["job-name"])
        while True:
            with contextlib.suppress(ApiError):
                async with self._gate:
                    secret = await self._client.get(Secret, name, namespace=pod.metadata.namespace)
                found: dict[str, Any] = json.loads(base64.b64decode((secret.data or {})["ticket.json"]))
                return found
            await asyncio.sleep(RETRY_S)

    async def _report(self, pod: Pod, status: dict[str, Any]) -> None:
        assert pod.metadata is not None
        where: dict[str, Any] = {"namespace": pod.metadata.namespace, "patch_type": PatchType.MERGE}
        with contextlib.suppress(ApiError):
            async with self._gate:
                await self._client.patch(Pod.Status, str(pod.metadata.name), {"status": status}, **where)

    async def _delete(self, pod: Pod) -> None:
        assert pod.metadata is not None
        with contextlib.suppress(ApiError):
            async with self._gate:
                await self._client.delete(
                    Pod, str(pod.metadata.name), namespace=pod.metadata.namespace, grace_period=0
                )


def utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


async def main(kubeconfig: str, nodes: int, gpus: int) -> None:
    client = AsyncClient(config=KubeConfig.from_file(kubeconfig), trust_env=False)
    pods = StubPods(client)
    names = [f"stub-{number}" for number in range(nodes)]
    for name in names:
        await pods.add_node(name, gpus)
    tasks = [asyncio.create_task(pods.watch()), asyncio.create_task(pods.send_heartbeats(names, gpus))]
    print(json.dumps({"ready": True}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    gc.set_threshold(100_000, 50, 100)  # what is measured is the server: this process shall not be in its way
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
