"""How the Jobs and pods of attempts are followed, and the parts of them that are kept."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from tests.unit.backends.kubernetes.objects import recorded

from anygpu.backends.kubernetes.manifests import agent_maps_of
from anygpu.backends.kubernetes.status import StatusLimits, image_of, observe_job_without_pod, observe_pod
from anygpu.backends.kubernetes.tracker import KINDS, PodTracker, keep_used_parts
from anygpu.errors import BackendUnavailable

LIMITS = StatusLimits(start_limit_s=300, schedule_limit_s=300, image_of_job=True)
PODS = ("evicted", "failed", "image_pull", "oom_killed", "running", "terminating", "unschedulable")


@pytest.mark.parametrize("name", PODS)
@pytest.mark.parametrize("now", [0.0, 4e9])
def test_the_kept_parts_of_a_pod_give_the_same_observation(name: str, now: float) -> None:
    pod = recorded(f"pod_{name}")
    assert observe_pod(keep_used_parts("Pod", pod), LIMITS, now) == observe_pod(pod, LIMITS, now)


@pytest.mark.parametrize("name", ["active", "deadline", "failed"])
@pytest.mark.parametrize("now", [0.0, 4e9])
@pytest.mark.parametrize("suspend", [False, True])
def test_the_kept_parts_of_a_job_give_the_same_observation(name: str, now: float, suspend: bool) -> None:
    job = recorded(f"job_{name}")
    job["spec"]["suspend"] = suspend
    kept = keep_used_parts("Job", job)
    assert agent_maps_of(kept) == agent_maps_of(job)
    assert image_of(kept["spec"]["template"]) == image_of(job["spec"]["template"]) != ""
    for seen in (False, True):
        observe = partial(observe_job_without_pod, pod_was_seen=seen, limits=LIMITS, now=now)
        assert observe(kept) == observe(job)


def test_most_of_a_pod_is_not_kept() -> None:
    pod = recorded("pod_running")
    assert len(json.dumps(keep_used_parts("Pod", pod))) < len(json.dumps(pod)) / 2


Json = dict[str, Any]
T = TypeVar("T")
ATTEMPT = "anygpu-" + "ab" * 16 + "-1"


class OutdatedVersion(Exception):
    """What the client raises if a watch is to continue from a version that is too old."""

    status = SimpleNamespace(code=410)


class MemoryObjects:
    """Objects in memory that are listed and watched as those of an API server: lists are sorted by name."""

    url = "https://cluster.test"

    def __init__(self, *pods: Json, jobs: tuple[Json, ...] = ()) -> None:
        self.objects: dict[str, dict[str, Json]] = {kind: {} for kind in KINDS}
        self.changes: dict[str, asyncio.Queue[tuple[str, Json] | Exception]] = {
            kind: asyncio.Queue() for kind in KINDS
        }
        self.list_error: Exception | None = None
        self.lists = 0
        for kind, things in (("Pod", pods), ("Job", jobs)):
            self.objects[kind] = {thing["metadata"]["name"]: thing for thing in things}

    async def list_objects(
        self, kind: str, namespace: str, labels: Mapping[str, str], *, keep: Callable[[Json], T]
    ) -> tuple[list[T], str]:
        if self.list_error is not None:
            raise self.list_error
        self.lists += kind == "Pod"
        return [keep(thing) for _, thing in sorted(self.objects[kind].items())], "1"

    async def watch(
        self, kind: str, namespace: str, labels: Mapping[str, str], version: str, timeout_s: float
    ) -> AsyncIterator[tuple[str, Json]]:
        while True:
            change = await self.changes[kind].get()
            if isinstance(change, Exception):
                raise change
            yield change

    def put(self, pod: Json, event: str = "MODIFIED") -> None:
        self.objects["Pod"][pod["metadata"]["name"]] = pod
        self.changes["Pod"].put_nowait((event, pod))

    def delete(self, pod: Json) -> None:
        del self.objects["Pod"][pod["metadata"]["name"]]
        self.changes["Pod"].put_nowait(("DELETED", pod))

    def break_watch(self, error: Exception) -> None:
        self.changes["Pod"].put_nowait(error)


def pod(name: str, *, created: str = "10:00:00", phase: str = "Running", deleted: bool = False) -> Json:
    metadata: Json = {
        "name": f"{ATTEMPT}-{name}",
        "namespace": "ml",
        "uid": f"uid of {name}",
        "creationTimestamp": f"2026-01-01T{created}Z",
        "labels": {"job-name": ATTEMPT},
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T12:00:00Z"
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": phase}}


async def synced(objects: MemoryObjects, changed: list[str] | None = None) -> PodTracker:
    changes: list[str] = [] if changed is None else changed
    tracker = PodTracker(objects, "ml", {}, changes.append)
    await tracker.wait_synced()
    return tracker


def name_of_pod(tracker: PodTracker) -> str | None:
    """Return the name of the pod that counts for the attempt."""
    counted = tracker.members(ATTEMPT)[ATTEMPT].pod
    return None if counted is None else str(counted["metadata"]["name"]).removeprefix(f"{ATTEMPT}-")


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0)


@pytest.mark.parametrize(("original", "replacement"), [("a", "b"), ("b", "a")])
async def test_after_a_restart_the_oldest_pod_of_a_job_is_that_of_the_attempt(
    original: str, replacement: str
) -> None:
    objects = MemoryObjects(pod(replacement, created="11:00:00"), pod(original, deleted=True))
    tracker = await synced(objects)
    assert name_of_pod(tracker) == original
    await tracker.close()


@pytest.mark.parametrize(("original", "replacement"), [("a", "b"), ("b", "a")])
async def test_of_two_pods_of_the_same_second_the_one_that_is_deleted_is_older(
    original: str, replacement: str
) -> None:
    tracker = await synced(MemoryObjects(pod(replacement), pod(original, deleted=True)))
    assert name_of_pod(tracker) == original
    await tracker.close()


async def test_a_replacement_never_counts_as_the_pod_of_the_attempt() -> None:
    objects = MemoryObjects(pod("b"))
    tracker = await synced(objects)
    objects.put(pod("a", created="11:00:00"), "ADDED")
    objects.delete(pod("b"))
    await wait_until(lambda: name_of_pod(tracker) is None)
    assert tracker.was_seen(ATTEMPT)
    assert not tracker.members(ATTEMPT)[ATTEMPT].is_empty
    await tracker.close()


async def test_what_was_deleted_while_no_watch_was_open_is_gone_after_the_next_list() -> None:
    changed: list[str] = []
    objects = MemoryObjects(pod("a"))
    tracker = await synced(objects, changed)
    assert changed == [ATTEMPT]
    objects.objects["Pod"].clear()
    objects.break_watch(OutdatedVersion())
    await wait_until(lambda: objects.lists == 2)
    await wait_until(lambda: not tracker.members(ATTEMPT))
    assert changed == [ATTEMPT, ATTEMPT]
    assert tracker.is_known(ATTEMPT)
    tracker.forget(ATTEMPT)
    assert not tracker.is_known(ATTEMPT)
    await tracker.close()


async def test_only_changes_that_matter_are_reported() -> None:
    changed: list[str] = []
    objects = MemoryObjects(pod("a"))
    tracker = await synced(objects, changed)
    objects.put({**pod("a"), "status": {"phase": "Running", "podIP": "10.0.0.9"}})
    objects.put(pod("a", phase="Failed"))
    await wait_until(lambda: len(changed) > 1)
    assert changed == [ATTEMPT, ATTEMPT]
    await tracker.close()


async def test_a_server_that_lists_nothing_is_unavailable_with_its_reason() -> None:
    objects = MemoryObjects()
    objects.list_error = BackendUnavailable("The API server cannot be reached")
    changed: list[str] = []
    tracker = PodTracker(objects, "ml", {}, changed.append)
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await tracker.wait_synced()
    await tracker.close()
