"""Observations from recorded pods and Jobs of a real control plane."""

import calendar
from typing import Any

import pytest
from tests.unit.backends.kubernetes.objects import recorded

from anygpu.backends.contract import MachineState, Observation
from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.backends.kubernetes.status import (
    StatusLimits,
    has_reached_deadline,
    image_of,
    lost_node,
    observe_job_without_pod,
    observe_pod,
)
from anygpu.backends.kubernetes.tracker import keep_used_parts
from anygpu.events.facts import Blame

LIMITS = StatusLimits(start_limit_s=300, schedule_limit_s=300, image_of_job=True)
LONG_AGO, LATER = 0.0, 4e9


def observe(name: str, now: float = LONG_AGO, **fields: Any) -> Observation:
    return observe_pod(recorded(name), fields.pop("limits", LIMITS), now, **fields)


def with_status(name: str, **status: Any) -> Any:
    pod = recorded(name)
    return {**pod, "status": {**pod["status"], **status}}


def test_a_running_pod_has_its_start_and_node() -> None:
    seen = observe("pod_running")
    assert (seen.state, seen.preempted, seen.detail) == (
        MachineState.RUNNING,
        False,
        "the pod runs on node gpu-a",
    )
    assert seen.started_at_ms is not None


def test_an_unschedulable_pod_is_queued_with_the_schedulers_message_until_the_limit() -> None:
    seen = observe("pod_unschedulable")
    assert (seen.state, seen.queued, seen.failure) == (MachineState.PENDING, True, None)
    assert "Unschedulable: 0/4 nodes are available: 1 Insufficient nvidia.com/gpu" in seen.detail
    late = observe("pod_unschedulable", LATER)
    assert late.failure is not None
    assert (late.failure.code, late.failure.blame) == ("no_capacity", Blame.LAUNCH)


def test_a_pod_that_waits_for_the_autoscaler_is_not_given_up_after_the_limit_of_a_start() -> None:
    created = calendar.timegm((2026, 1, 1, 0, 0, 0))
    pod = recorded("pod_unschedulable")
    pod = {**pod, "metadata": {**pod["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}
    options = KubernetesOptions(start_limit_s=300, autoscale_wait_s=600)
    limits = StatusLimits(
        start_limit_s=options.start_limit_s,
        schedule_limit_s=options.schedule_limit_s,
        image_of_job=True,
    )
    assert observe_pod(pod, limits, created + 800).failure is None
    assert observe_pod(pod, limits, created + 1000).failure is not None


def test_an_image_that_cannot_be_pulled_fails_after_the_limit() -> None:
    seen = observe("pod_image_pull")
    assert (seen.state, seen.failure) == (MachineState.PENDING, None)
    assert "registry.test/bad:1 cannot be pulled: ImagePullBackOff" in seen.detail
    late = observe("pod_image_pull", LATER)
    assert late.failure is not None
    assert (late.failure.code, late.failure.blame) == ("image", Blame.USER)
    of_backend = observe(
        "pod_image_pull", LATER, limits=StatusLimits(start_limit_s=1, schedule_limit_s=1, image_of_job=False)
    )
    assert of_backend.failure is not None
    assert of_backend.failure.blame is Blame.LAUNCH


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ContainerCreating", "CreateContainerError"])
def test_a_pod_that_has_a_node_may_take_the_limit_of_a_start(reason: str) -> None:
    limits = StatusLimits(start_limit_s=1800, schedule_limit_s=2400, image_of_job=True)
    pod = with_status(
        "pod_image_pull", containerStatuses=[{"name": "job", "state": {"waiting": {"reason": reason}}}]
    )
    seen = observe_pod(pod, limits, LONG_AGO)
    assert (seen.state, seen.queued, seen.start_limit_s) == (MachineState.PENDING, False, 1800)
    assert observe("pod_unschedulable").start_limit_s is None
    assert observe("pod_running").start_limit_s is None


def test_an_invalid_image_name_fails_at_once() -> None:
    state = {"waiting": {"reason": "InvalidImageName", "message": "couldn't parse image reference"}}
    pod = with_status("pod_image_pull", containerStatuses=[{"name": "job", "state": state}])
    assert observe_pod(pod, LIMITS, LONG_AGO).failure is not None


def test_out_of_memory_is_the_cause_of_the_end_and_no_preemption() -> None:
    seen = observe("pod_oom_killed")
    assert (seen.state, seen.preempted) == (MachineState.EXITED, False)
    assert seen.end_cause is not None
    assert (seen.end_cause.code, seen.end_cause.blame) == ("out_of_memory", Blame.INFRASTRUCTURE)
    assert seen.detail == "the node gpu-a ran out of memory, and the container was killed (OOMKilled)"
    assert seen.ended_at_ms is not None


def test_a_container_that_exceeds_its_memory_limit_is_to_blame_itself() -> None:
    pod = recorded("pod_oom_killed")
    pod["spec"]["containers"][0]["resources"]["limits"] = {"memory": "16Gi"}
    seen = observe_pod(keep_used_parts("Pod", pod), LIMITS, LONG_AGO)
    assert seen.end_cause is not None
    assert (seen.end_cause.code, seen.end_cause.blame) == ("out_of_memory", Blame.USER)
    assert "exceeded its memory limit of 16Gi (OOMKilled) on node gpu-a" in seen.end_cause.message


def test_an_eviction_under_pressure_is_a_preemption_and_one_for_own_excess_is_not() -> None:
    seen = observe("pod_evicted")
    assert (seen.state, seen.preempted) == (MachineState.EXITED, True)
    assert "The node was low on resource: memory." in seen.detail
    own = with_status(
        "pod_evicted", message="Pod ephemeral local storage usage exceeds the total limit of 1Gi"
    )
    assert not observe_pod(own, LIMITS, LONG_AGO).preempted


@pytest.mark.parametrize(
    "message",
    [
        "The node was low on resource: memory. Container job was using 5Gi, which exceeds its request of 0. ",
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 9Ki. Container job "
        "was using 5Gi, request is 0, has larger consumption of ephemeral-storage. ",
        "The node had condition: [DiskPressure]. ",
    ],
)
def test_every_eviction_from_a_node_that_is_short_of_a_resource_is_a_preemption(message: str) -> None:
    assert observe_pod(with_status("pod_evicted", message=message), LIMITS, LONG_AGO).preempted


def test_containers_that_the_cluster_adds_to_a_pod_do_not_count() -> None:
    proxy = {"name": "istio-proxy", "state": {"running": {"startedAt": "2026-11-18T09:00:00Z"}}}
    statuses = recorded("pod_oom_killed")["status"]["containerStatuses"]
    pod = with_status("pod_oom_killed", phase="Running", containerStatuses=[proxy, *statuses])
    pod["spec"]["containers"].insert(0, {"name": "istio-proxy", "image": "proxy:1"})
    seen = observe_pod(pod, LIMITS, LONG_AGO)
    assert (seen.state, seen.end_cause is not None) == (MachineState.EXITED, True)
    assert image_of(pod) == recorded("pod_oom_killed")["spec"]["containers"][0]["image"]
    running = with_status("pod_running", containerStatuses=[proxy])
    assert observe_pod(running, LIMITS, LONG_AGO).started_at_ms is None


@pytest.mark.parametrize(("image_of_job", "blame"), [(True, Blame.USER), (False, Blame.LAUNCH)])
def test_an_image_without_a_shell_is_named_and_its_start_is_not_billed(
    image_of_job: bool, blame: Blame
) -> None:
    terminated = {
        "exitCode": 128,
        "reason": "StartError",
        "message": 'failed to create containerd task: exec: "/bin/sh": stat /bin/sh: no such file or directory',
        "startedAt": "1970-01-01T00:00:00Z",
        "finishedAt": "2026-11-18T09:00:00Z",
    }
    status = [{"name": "job", "state": {"terminated": terminated}}]
    limits = StatusLimits(start_limit_s=300, schedule_limit_s=300, image_of_job=image_of_job)
    seen = observe_pod(with_status("pod_failed", containerStatuses=status), limits, LONG_AGO)
    assert seen.failure is not None
    assert (seen.failure.code, seen.failure.blame) == ("failed_to_start", blame)
    assert "stat /bin/sh" in seen.failure.message
    assert seen.started_at_ms is None


def test_a_pod_that_somebody_deletes_is_preempted_and_one_that_we_delete_is_not() -> None:
    seen = observe("pod_terminating")
    assert (seen.state, seen.preempted) == (MachineState.RUNNING, True)
    assert not observe("pod_terminating", deleted_by_us=True).preempted


def test_the_deletion_at_the_deadline_is_not_a_preemption() -> None:
    seen = observe("pod_terminating", job=recorded("job_deadline"))
    assert (seen.preempted, "activeDeadlineSeconds" in seen.detail) == (False, True)


def test_since_kubernetes_1_31_the_deadline_is_a_failure_target_until_the_pod_has_ended() -> None:
    job = recorded("job_deadline")
    job["status"]["conditions"][0]["type"] = "FailureTarget"
    seen = observe("pod_terminating", job=job)
    assert (seen.preempted, "activeDeadlineSeconds" in seen.detail) == (False, True)
    ended = observe("pod_failed", job=job)
    assert ended.end_cause is not None
    assert (ended.end_cause.code, ended.preempted) == ("time_limit", False)
    job["status"]["conditions"][0]["status"] = "False"
    assert not has_reached_deadline(job)


@pytest.mark.parametrize(
    "reason", ["PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI"]
)
def test_the_condition_of_newer_versions_says_why_a_pod_is_taken(reason: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "because"}
    running = observe_pod(with_status("pod_running", conditions=[condition]), LIMITS, LONG_AGO)
    assert (running.state, running.preempted) == (MachineState.RUNNING, True)
    assert f"{reason}: because" in running.detail
    assert observe_pod(with_status("pod_failed", conditions=[condition]), LIMITS, LONG_AGO).preempted


@pytest.mark.parametrize("reason", ["NodeShutdown", "Terminated", "Preempting", "NodeLost"])
def test_a_node_that_shuts_down_preempts_its_pods(reason: str) -> None:
    assert observe_pod(with_status("pod_failed", reason=reason), LIMITS, LONG_AGO).preempted


@pytest.mark.parametrize(
    "reason", ["OutOfcpu", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError", "TopologyAffinityError"]
)
def test_a_node_that_has_no_room_after_all_is_no_capacity(reason: str) -> None:
    seen = observe_pod(with_status("pod_failed", reason=reason, containerStatuses=[]), LIMITS, LONG_AGO)
    assert seen.failure is not None
    assert seen.failure.code == "no_capacity"


def test_the_output_of_a_container_that_failed_is_in_the_failure() -> None:
    state = {"terminated": {"exitCode": 127, "reason": "Error", "message": "anygpu: no Python 3.9 or newer"}}
    pod = with_status("pod_failed", containerStatuses=[{"name": "job", "state": state}])
    seen = observe_pod(pod, LIMITS, LONG_AGO)
    assert seen.failure is not None
    assert (seen.failure.code, seen.failure.blame) == ("failed_to_start", Blame.USER)
    assert "its output ends with:\nanygpu: no Python 3.9 or newer" in seen.failure.message
    killed = observe("pod_failed")
    assert killed.failure is not None
    assert (killed.failure.code, killed.failure.blame) == ("launch_refused", Blame.LAUNCH)


def observe_job(job: Any, now: float = LONG_AGO, *, pod_was_seen: bool = False) -> Observation:
    return observe_job_without_pod(job, pod_was_seen=pod_was_seen, limits=LIMITS, now=now)


def test_a_job_without_a_pod() -> None:
    job = recorded("job_active")
    waiting = observe_job(job)
    assert (waiting.state, waiting.queued, waiting.failure) == (MachineState.PENDING, True, None)
    deleted = observe_job(job, pod_was_seen=True)
    assert (deleted.state, deleted.preempted) == (MachineState.EXITED, True)
    late = observe_job(recorded("job_deadline"), pod_was_seen=True)
    assert (late.state, late.preempted) == (MachineState.EXITED, False)
    assert late.end_cause is not None
    assert late.end_cause.code == "time_limit"
    failed = observe_job(recorded("job_failed"))
    assert "BackoffLimitExceeded" in failed.detail
    assert has_reached_deadline(recorded("job_deadline"))


def test_a_job_whose_pod_kubernetes_does_not_create_fails_after_the_limit() -> None:
    late = observe_job(recorded("job_active"), LATER)
    assert late.failure is not None
    assert (late.failure.code, late.failure.blame) == ("quota", Blame.LAUNCH)
    assert "kubectl describe job --namespace" in late.failure.message
    suspended = recorded("job_active")
    suspended["spec"]["suspend"] = True
    seen = observe_job(suspended, LATER)
    assert (seen.state, seen.failure, "suspended" in seen.detail) == (MachineState.PENDING, None, True)


def test_a_node_that_no_longer_exists_preempts() -> None:
    seen = lost_node(recorded("pod_running"))
    assert (seen.state, seen.preempted) == (MachineState.EXITED, True)
    assert "gpu-a was removed" in seen.detail


def test_hostile_text_of_the_cluster_does_not_break_the_observation() -> None:
    strange = with_status("pod_running", phase="Pending", conditions=None, containerStatuses=None)
    assert observe_pod(strange, LIMITS, LONG_AGO).state is MachineState.PENDING
    assert observe_pod({}, LIMITS, LONG_AGO).state is MachineState.PENDING
