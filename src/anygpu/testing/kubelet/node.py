"""A node of a Kubernetes cluster: it registers itself, runs the pods that are bound to it, and reports their status.

It keeps the rules that matter to a program that runs pods: images that cannot be pulled, secrets that do not exist yet,
exit codes, termination messages, graceful deletion with SIGTERM, eviction under pressure, and a node that dies.
"""

import base64
import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anygpu.testing.kubelet.container import CannotCreateContainer, ContainerProcess, Mount

if TYPE_CHECKING:
    from lightkube import Client
    from lightkube.models.core_v1 import Volume
    from lightkube.resources.core_v1 import Pod

BAD_IMAGE = "bad"  # an image whose name has this word cannot be pulled
HEARTBEAT_S = 5.0
RETRY_S = 0.2
POLL_S = 0.05
USABLE_WITHIN_S = 60.0
WATCH_S = 5
OOM_EXIT_CODE = 137
NOT_READY = "node.kubernetes.io/not-ready"


def utc(at: float | None = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


class Kubelet:
    """One node. `client` is a synchronous lightkube client of an administrator."""

    def __init__(
        self,
        client: "Client",
        name: str,
        folder: Path,
        *,
        allocatable: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> None:
        self.name = name
        self.client = client
        self._folder = folder
        self._resources = {"cpu": "8", "memory": "16Gi", "pods": "110", **allocatable}
        self._labels = {"kubernetes.io/hostname": name, **(labels or {})}
        self._taints = [dict(taint) for taint in taints]
        self._pods: dict[str, RunningPod] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Register the node, and start to run its pods."""
        self._register()
        for target in (self._send_heartbeats, self._watch_pods):
            thread = threading.Thread(target=target, name=f"{self.name}-{target.__name__}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._wait_until_usable()

    def _wait_until_usable(self) -> None:
        """Wait until the control plane has removed the taint that every new node gets."""
        from lightkube.resources.core_v1 import Node

        until = time.monotonic() + USABLE_WITHIN_S
        while time.monotonic() < until:
            spec = self.client.get(Node, self.name).spec
            if not any(taint.key == NOT_READY for taint in (spec.taints if spec else None) or []):
                return
            time.sleep(RETRY_S / 4)
        raise TimeoutError(f"the node {self.name} was not usable within {USABLE_WITHIN_S:g} s")

    def stop(self, *, remove: bool = True) -> None:
        """Kill all containers and stop without another report, as a machine that loses its power does.

        `remove`: delete the node from the cluster too.
        """
        self._stopped.set()
        with self._lock:
            pods = [*self._pods.values()]
        for pod in pods:
            pod.abandon()
        if remove:
            from lightkube.resources.core_v1 import Node

            with _ignore_missing():
                self.client.delete(Node, self.name)

    def join(self) -> None:
        """Wait until the threads of a stopped node no longer use its client."""
        for thread in self._threads:
            thread.join(WATCH_S + 30)

    def kill_out_of_memory(self, pod: str) -> None:
        """End the container of a pod as the kernel does when its memory limit is exceeded."""
        self._find(pod).kill("OOMKilled")

    def kill_container(self, pod: str) -> None:
        """Kill the container of a pod. The pod then fails."""
        self._find(pod).kill()

    def evict(self, pod: str, message: str) -> None:
        """Evict a pod because the node is short of a resource. Its containers are killed without a notice."""
        self._find(pod).evict(message)

    def running_pods(self) -> list[str]:
        with self._lock:
            return sorted(pod.name for pod in self._pods.values() if pod.is_running)

    def _find(self, name: str) -> "RunningPod":
        with self._lock:
            return next(pod for pod in self._pods.values() if pod.name == name)

    # -- the node ---------------------------------------------------------------------------------------------

    def _register(self) -> None:
        from lightkube.resources.core_v1 import Node

        node = {
            "metadata": {"name": self.name, "labels": self._labels},
            "spec": {"taints": self._taints} if self._taints else {},
        }
        with _ignore_conflict():
            made: Any = Node.from_dict(node)
            self.client.create(made)
        self._report_node()

    def _report_node(self) -> None:
        from lightkube.resources.core_v1 import Node

        now = utc()
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status = {"capacity": self._resources, "allocatable": self._resources, "conditions": [ready]}
        self.client.patch(Node.Status, self.name, {"status": status})

    def _send_heartbeats(self) -> None:
        while not self._stopped.wait(HEARTBEAT_S):
            with _ignore_errors():
                self._report_node()

    # -- pods -------------------------------------------------------------------------------------------------

    def _watch_pods(self) -> None:
        from lightkube.resources.core_v1 import Pod

        while not self._stopped.is_set():
            with _ignore_errors():
                where: dict[str, Any] = {"spec.nodeName": self.name}
                for event, pod in self.client.watch(Pod, namespace="*", fields=where, server_timeout=WATCH_S):
                    if self._stopped.is_set():
                        return
                    self._take(event, pod)
            self._stopped.wait(RETRY_S)

    def _take(self, event: str, pod: "Pod") -> None:
        metadata = pod.metadata
        assert metadata is not None
        assert metadata.uid is not None
        with self._lock:
            running = self._pods.get(metadata.uid)
            ended = (pod.status.phase if pod.status else None) in ("Succeeded", "Failed")
            if event == "DELETED":
                self._pods.pop(metadata.uid, None)
            elif running is None and not ended and metadata.deletionTimestamp is None:
                running = self._pods[metadata.uid] = RunningPod(self.client, pod, self._folder / metadata.uid)
                running.start()
        if event == "DELETED" and running is not None:
            running.abandon()
        elif metadata.deletionTimestamp is not None:
            if running is None:
                _delete_now(self.client, pod)
            else:
                running.delete(metadata.deletionGracePeriodSeconds or 0)


class RunningPod:
    """A pod on the node, with a thread that runs its only container."""

    def __init__(self, client: "Client", pod: "Pod", folder: Path) -> None:
        assert pod.metadata is not None
        self.name = str(pod.metadata.name)
        self._client = client
        self._pod = pod
        self._folder = folder
        self._process: ContainerProcess | None = None
        self._ended = threading.Event()
        self._deleting = threading.Event()
        self._kill_at = float("inf")
        self._abandoned = False
        self._reason = ""
        self._eviction = ""
        self._started_at = ""

    def start(self) -> None:
        threading.Thread(target=self._run, name=self.name, daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process is not None and not self._ended.is_set()

    def kill(self, reason: str = "") -> None:
        self._reason = reason
        if self._process is not None:
            self._process.kill()

    def evict(self, message: str) -> None:
        self._eviction = message
        self.kill()

    def abandon(self) -> None:
        """Kill the container, and report nothing."""
        self._abandoned = True
        self._deleting.set()
        self.kill()

    def delete(self, grace_s: float) -> None:
        """Begin the deletion, or shorten the time that the container has left."""
        self._kill_at = min(self._kill_at, time.monotonic() + grace_s)
        if not self._deleting.is_set():
            self._deleting.set()
            threading.Thread(target=self._delete, name=self.name, daemon=True).start()

    def _delete(self) -> None:
        if self._process is not None and not self._ended.is_set():
            self._process.terminate()
            while not self._process.wait_for(POLL_S) and time.monotonic() < self._kill_at:
                continue
            self._process.kill()
            self._ended.wait(10)
        with _ignore_errors():
            _delete_now(self._client, self._pod)

    def _run(self) -> None:
        try:
            if self._is_image_bad():
                self._fail_to_pull()
                return
            mounts = self._prepare_volumes()
            if mounts is not None:
                self._run_container(mounts)
        except CannotCreateContainer as error:
            self._report("Pending", {"waiting": {"reason": "CreateContainerError", "message": str(error)}})
        finally:
            self._ended.set()

    @property
    def _container(self) -> Any:
        assert self._pod.spec is not None
        return self._pod.spec.containers[0]

    def _is_image_bad(self) -> bool:
        return BAD_IMAGE in str(self._container.image)

    def _fail_to_pull(self) -> None:
        for reason in ("ErrImagePull", "ImagePullBackOff"):
            message = f'Back-off pulling image "{self._container.image}"'
            self._report("Pending", {"waiting": {"reason": reason, "message": message}})
            time.sleep(RETRY_S)

    def _run_container(self, mounts: list[Mount]) -> None:
        container = self._container
        self._folder.mkdir(parents=True, exist_ok=True)
        env = {variable.name: variable.value or "" for variable in container.env or []}
        command = [*(container.command or []), *(container.args or [])]
        self._process = ContainerProcess(
            command, env, mounts, self._folder / "log", container.workingDir or "/"
        )
        if self._deleting.is_set():
            self._process.kill()
        self._started_at = utc()
        self._report("Running", {"running": {"startedAt": self._started_at}})
        code = self._process.wait()
        self._report_end(OOM_EXIT_CODE if self._reason else code)

    def _report_end(self, code: int) -> None:
        keeps_log = code and self._container.terminationMessagePolicy == "FallbackToLogsOnError"
        terminated = {
            "exitCode": code,
            "reason": self._reason or ("Error" if code else "Completed"),
            "startedAt": self._started_at,
            "finishedAt": utc(),
            "message": self._process.log_tail() if keeps_log and self._process else "",
        }
        why = {"reason": "Evicted", "message": self._eviction} if self._eviction else {}
        self._report("Failed" if code or self._eviction else "Succeeded", {"terminated": terminated}, **why)

    def _report(self, phase: str, state: Mapping[str, Any], **fields: str) -> None:
        """Write the status of the pod. The API server may have forgotten the pod."""
        if self._abandoned:
            return
        from lightkube.resources.core_v1 import Pod
        from lightkube.types import PatchType

        assert self._pod.metadata is not None
        status = {
            "phase": phase,
            "startTime": self._started_at or utc(),
            "containerStatuses": [
                {
                    "name": self._container.name,
                    "image": self._container.image,
                    "imageID": "",
                    "ready": "running" in state,
                    "restartCount": 0,
                    "state": dict(state),
                }
            ],
            **fields,
        }
        with _ignore_errors(), _ignore_missing():
            self._client.patch(
                Pod.Status,
                self.name,
                {"status": status},
                namespace=self._pod.metadata.namespace,
                patch_type=PatchType.MERGE,
            )

    # -- volumes ----------------------------------------------------------------------------------------------

    def _prepare_volumes(self) -> list[Mount] | None:
        """Make the directories of the volumes. Wait until their secrets exist; None if the pod is deleted first."""
        assert self._pod.spec is not None
        folders = {}
        for volume in self._pod.spec.volumes or []:
            folder = self._folder / "volumes" / volume.name
            folder.mkdir(parents=True)
            files = self._files_of(volume)
            while files is None:
                if self._deleting.wait(RETRY_S):
                    return None
                files = self._files_of(volume)
            for name, content in files.items():
                (folder / name).write_bytes(content)
            folders[volume.name] = folder
        return [
            Mount(folders[mount.name], mount.mountPath, bool(mount.readOnly))
            for mount in self._container.volumeMounts or []
        ]

    def _files_of(self, volume: "Volume") -> dict[str, bytes] | None:
        """Return the files of a volume; None while its object does not exist."""
        from lightkube.resources.core_v1 import ConfigMap, Secret

        assert self._pod.metadata is not None
        namespace = self._pod.metadata.namespace
        encoded: Mapping[str, str] | None = {}
        with _ignore_missing() as found:
            if volume.secret is not None:
                encoded = self._client.get(Secret, str(volume.secret.secretName), namespace=namespace).data
            elif volume.configMap is not None:
                encoded = self._client.get(
                    ConfigMap, str(volume.configMap.name), namespace=namespace
                ).binaryData
        if not found:
            return None
        return {name: base64.b64decode(content) for name, content in (encoded or {}).items()}


def _delete_now(client: "Client", pod: "Pod") -> None:
    from lightkube.resources.core_v1 import Pod

    assert pod.metadata is not None
    with _ignore_missing():
        client.delete(Pod, str(pod.metadata.name), namespace=pod.metadata.namespace, grace_period=0)


class _IgnoreStatus(contextlib.AbstractContextManager["_IgnoreStatus"]):
    """Ignores API errors with one of these codes. It is false if such an error occurred."""

    def __init__(self, *codes: int) -> None:
        self._codes = codes
        self._held = False

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        from lightkube import ApiError

        self._held = isinstance(error, ApiError) and error.status.code in self._codes
        return self._held

    def __bool__(self) -> bool:
        return not self._held


def _ignore_missing() -> _IgnoreStatus:
    return _IgnoreStatus(404, 409)


def _ignore_conflict() -> _IgnoreStatus:
    return _IgnoreStatus(409)


@contextlib.contextmanager
def _ignore_errors() -> Any:
    """Ignore errors of an API server that does not answer; the caller tries again."""
    import httpx2

    try:
        yield
    except (httpx2.HTTPError, OSError, RuntimeError):
        return
