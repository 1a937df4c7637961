"""Follow the Jobs and pods of this server with two watches, however many attempts there are.

A watch can break or fall behind. Then everything is listed again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from anygpu.backends.contract import split_node_name
from anygpu.backends.kubernetes.manifests import ATTEMPT_LABEL
from anygpu.backends.kubernetes.status import has_ended, has_ended_job, is_running, is_taken
from anygpu.errors import AnygpuError, BackendUnavailable, describe_error

Json = dict[str, Any]
T = TypeVar("T")
WATCH_S = 240.0
FIRST_RETRY_S, MAX_RETRY_S = 0.5, 20.0
SYNC_WITHIN_S = 30.0
KINDS = ("Job", "Pod")
USED_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class ObjectSource(Protocol):
    """Where the Jobs and pods come from: the API server of a cluster."""

    @property
    def url(self) -> str: ...

    async def list_objects(
        self, kind: str, namespace: str, labels: Mapping[str, str], *, keep: Callable[[Json], T]
    ) -> tuple[list[T], str]: ...

    def watch(
        self, kind: str, namespace: str, labels: Mapping[str, str], version: str, timeout_s: float
    ) -> AsyncIterator[tuple[str, Json]]: ...


@dataclass(slots=True)
class TrackedPod:
    """The Job of one pod of an attempt, and its pods as they were last seen.

    A Job may replace a deleted pod. The first pod is the one whose agent claimed the attempt, so only it counts.
    Pods must be added in the order in which they were created.
    """

    job: Json | None = None
    pods: dict[str, Json] = field(default_factory=dict)
    first_uid: str = ""

    @property
    def pod(self) -> Json | None:
        return self.pods.get(self.first_uid)

    @property
    def was_seen(self) -> bool:
        return bool(self.first_uid)

    @property
    def namespace(self) -> str:
        """The namespace of the Job and its pods; empty if none of them exists."""
        things = (self.job, *self.pods.values())
        return next((str(thing["metadata"]["namespace"]) for thing in things if thing), "")

    @property
    def is_empty(self) -> bool:
        return self.job is None and not self.pods

    def fingerprint(self) -> tuple[Any, ...]:
        """Return what matters of the objects. Most changes, such as bookkeeping of controllers, leave it as it is."""
        pods = [(uid, is_running(pod), has_ended(pod), is_taken(pod)) for uid, pod in self.pods.items()]
        return self.job is None, self.job is not None and has_ended_job(self.job), *pods

    def add_pod(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        self.pods[uid] = pod
        self.first_uid = self.first_uid or uid


class PodTracker:
    """Knows the Jobs and pods of this server by the names of their Jobs.

    `on_change` is called with the name of an attempt whose Job or pod has changed.
    """

    def __init__(
        self,
        cluster: ObjectSource,
        namespace: str,
        labels: Mapping[str, str],
        on_change: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._labels = dict(labels)
        self._on_change = on_change
        self._tracked: dict[str, TrackedPod] = {}
        self._members: dict[str, set[str]] = {}  # the names of an attempt's Jobs
        self._tasks: list[asyncio.Task[None]] = []
        self._synced = {kind: asyncio.Event() for kind in KINDS}
        self._problems: dict[str, str] = {}

    async def wait_synced(self) -> None:
        """Start the watches if necessary, and wait until the first lists are complete.

        Raise BackendUnavailable while the API server does not answer.
        """
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._follow(kind)) for kind in KINDS]
        if all(event.is_set() for event in self._synced.values()):
            return
        waits = [asyncio.ensure_future(self._synced[kind].wait()) for kind in KINDS]
        try:
            async with asyncio.timeout(SYNC_WITHIN_S):
                while not all(wait.done() for wait in waits):
                    await asyncio.wait(waits, timeout=0.2)
                    self._raise_problem()
        except TimeoutError:
            self._raise_problem()
            raise BackendUnavailable(
                f"The API server {self._cluster.url} did not list pods within {SYNC_WITHIN_S:g} s"
            ) from None
        finally:
            for wait in waits:
                wait.cancel()

    def members(self, attempt: str) -> dict[str, TrackedPod]:
        """Return what exists of an attempt, by the names of its Jobs."""
        names = self._members.get(attempt, ())
        return {name: self._tracked[name] for name in sorted(names) if not self._tracked[name].is_empty}

    def attempts(self) -> list[str]:
        """Return the names of the attempts of which anything exists."""
        return sorted(attempt for attempt in self._members if self.members(attempt))

    def is_known(self, attempt: str) -> bool:
        """Return whether something of the attempt exists, or existed until the watches reported that it was deleted."""
        return attempt in self._members

    def has_attempt_in(self, namespace: str) -> bool:
        """Return whether anything of an attempt exists in the namespace."""
        return any(tracked.namespace == namespace for tracked in self._tracked.values())

    def was_seen(self, name: str) -> bool:
        """Return whether the pod of a Job has ever been seen."""
        tracked = self._tracked.get(name)
        return tracked is not None and tracked.was_seen

    def add_job(self, job: Json) -> None:
        """Record a Job that this server has just created, before the watch reports it."""
        tracked = self._track(job["metadata"]["name"])
        if tracked.job is None:
            tracked.job = keep_used_parts("Job", job)

    def forget(self, attempt: str) -> None:
        """Forget an attempt after the API server has confirmed that its Jobs and pods do not exist."""
        for name in self._members.pop(attempt, ()):
            self._tracked.pop(name, None)

    def _track(self, name: str) -> TrackedPod:
        self._members.setdefault(split_node_name(name)[0], set()).add(name)
        return self._tracked.setdefault(name, TrackedPod())

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _raise_problem(self) -> None:
        for kind in KINDS:
            if not self._synced[kind].is_set() and (problem := self._problems.get(kind)):
                raise BackendUnavailable(problem)

    async def _follow(self, kind: str) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            try:
                version = await self._list(kind)
                retry_s = FIRST_RETRY_S
                await self._watch(kind, version)
            except Exception as error:  # noqa: BLE001  whatever broke the watch, the next list finds out
                if _is_outdated(error):
                    continue
                self._problems[kind] = str(error) if isinstance(error, AnygpuError) else describe_error(error)
                self._synced[kind].clear()
                await asyncio.sleep(retry_s)
                retry_s = min(MAX_RETRY_S, retry_s * 2)

    async def _list(self, kind: str) -> str:
        listed, version = await self._cluster.list_objects(
            kind, self._namespace, self._labels, keep=lambda thing: _keep_named(kind, thing)
        )
        self._replace(kind, listed)
        self._problems.pop(kind, None)
        self._synced[kind].set()
        return version

    async def _watch(self, kind: str, version: str) -> None:
        """Apply changes until none has come for a while. A silent connection may be dead, so the caller lists again."""
        changes = self._cluster.watch(kind, self._namespace, self._labels, version, WATCH_S)
        async with contextlib.aclosing(changes):  # type: ignore[type-var]
            while True:
                try:
                    async with asyncio.timeout(WATCH_S + 10):
                        event, thing = await anext(changes)
                except TimeoutError:
                    return
                self._apply(kind, event, *_keep_named(kind, thing))

    def _replace(self, kind: str, objects: Sequence[tuple[str, Json]]) -> None:
        """Replace what is known of a kind. Objects that are no longer listed were deleted."""
        listed = {thing["metadata"]["uid"] for _, thing in objects}
        for name, tracked in [*self._tracked.items()]:
            known = [tracked.job] if kind == "Job" and tracked.job else []
            known = [*tracked.pods.values()] if kind == "Pod" else known
            for thing in known:
                if thing["metadata"]["uid"] not in listed:
                    self._apply(kind, "DELETED", name, thing)
        for name, thing in sorted(objects, key=lambda each: _age_order(each[1])):
            self._apply(kind, "MODIFIED", name, thing)

    def _apply(self, kind: str, event: str, name: str, thing: Json) -> None:
        if not name or (event == "DELETED" and name not in self._tracked):
            return
        tracked = self._track(name)
        before = tracked.fingerprint()
        if kind == "Job":
            tracked.job = None if event == "DELETED" else thing
        elif event == "DELETED":
            tracked.pods.pop(thing["metadata"]["uid"], None)
        else:
            tracked.add_pod(thing)
        if tracked.fingerprint() != before:
            self._on_change(split_node_name(name)[0])


def job_name(kind: str, thing: Json) -> str:
    """Return the name of the Job to which an object belongs; empty if it is not one of ours."""
    metadata = thing.get("metadata") or {}
    if kind == "Job":
        return str(metadata.get("name") or "")
    labels = metadata.get("labels") or {}
    return str(labels.get("job-name") or labels.get(ATTEMPT_LABEL) or "")


def _keep_named(kind: str, thing: Json) -> tuple[str, Json]:
    """Return the name of an object's Job, and the parts of the object that are used."""
    return job_name(kind, thing), keep_used_parts(kind, thing)


def keep_used_parts(kind: str, thing: Json) -> Json:
    """Return the parts of a Job or pod that the backend uses. The whole objects of a thousand attempts are large."""
    metadata, spec = thing["metadata"], thing.get("spec") or {}
    return {
        "metadata": {name: metadata[name] for name in USED_METADATA if name in metadata},
        "spec": _used_job_spec(spec) if kind == "Job" else _used_pod_spec(spec),
        "status": thing.get("status"),
    }


def _used_job_spec(spec: Json) -> Json:
    template = (spec.get("template") or {}).get("spec") or {}
    volumes = [each for each in template.get("volumes") or () if each.get("configMap")]
    used = {**_used_pod_spec(template), "volumes": volumes}
    return {"suspend": spec.get("suspend"), "template": {"spec": used}}


def _used_pod_spec(spec: Json) -> Json:
    containers = [
        {name: each.get(name) for name in ("name", "image", "resources")}
        for each in spec.get("containers") or ()
    ]
    return {"nodeName": spec.get("nodeName"), "containers": containers}


def _age_order(thing: Json) -> tuple[str, bool]:
    """Return a key that sorts objects from the oldest to the newest.

    Times have whole seconds. A pod that is being deleted is older than the one that replaces it.
    """
    metadata = thing["metadata"]
    return str(metadata.get("creationTimestamp") or ""), "deletionTimestamp" not in metadata


def _is_outdated(error: Exception) -> bool:
    """Return whether the version from which a watch was to continue is too old (410 Gone)."""
    status = getattr(error, "status", None)
    return getattr(status, "code", None) == 410
