"""Turn the Job and the pod of an attempt into an observation. Pure functions over JSON objects.

Whoever deletes a pod that the server has not deleted takes the machine back: the scheduler for a pod with a higher
priority, an administrator, a drain, an autoscaler. That is a preemption. Newer versions of Kubernetes also say so
with the condition DisruptionTarget.
"""

import calendar
import time
from dataclasses import dataclass, replace
from typing import Any

from anygpu.backends.contract import MachineState, Observation
from anygpu.events.facts import Blame, Failure

Json = dict[str, Any]
PULL_REASONS = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
)
HOPELESS_REASONS = ("InvalidImageName", "ErrImageNeverPull")
CREATE_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# Reasons of a failed pod for which its node or the cluster is the cause.
TAKEN_REASONS = (
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
    "Preempting",
    "NodeAffinity",
)
NO_ROOM_REASONS = ("OutOf", "UnexpectedAdmissionError", "TopologyAffinityError")
# An eviction because the pod itself used more than its limit has one of these words. An eviction from a node that is
# short of a resource may have them too ("which exceeds its request of 0"), so it is recognised by its beginning.
OWN_FAULT = ("exceeds", "exceeded")
NODE_PRESSURE = ("The node was low on resource", "The node had condition")
OUT_OF_MEMORY = "OOMKilled"
NO_PYTHON_CODE = 127
# The program of the container could not be started: of containerd and CRI-O, and of Docker.
NO_SHELL_REASONS = ("StartError", "ContainerCannotRun")
CONTAINER = "job"  # clusters may add containers of their own to a pod
MESSAGE_CHARS = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusLimits:
    """How long a pod may be unable to start or wait for a node, and whose image it has."""

    start_limit_s: float
    schedule_limit_s: float
    image_of_job: bool  # the spec names the image, so a wrong name is the user's error


DEADLINE_TEXT = "the Job reached its time limit (activeDeadlineSeconds), so Kubernetes ended it"
DEADLINE = Failure(code="time_limit", message=DEADLINE_TEXT, blame=Blame.INFRASTRUCTURE)


def observe_pod(
    pod: Json, limits: StatusLimits, now: float, *, job: Json | None = None, deleted_by_us: bool = False
) -> Observation:
    """Return the state of an attempt whose pod exists."""
    status = pod.get("status") or {}
    phase = status.get("phase")
    is_late = job is not None and has_reached_deadline(job)
    if phase in ("Succeeded", "Failed") or _container_state(pod).get("terminated"):
        ended = _observe_ended(pod, limits)
        return replace(ended, end_cause=ended.end_cause or DEADLINE, preempted=False) if is_late else ended
    taken = "" if deleted_by_us or is_late else _disruption(pod)
    if phase == "Running":
        return Observation(
            state=MachineState.RUNNING,
            detail=DEADLINE_TEXT if is_late else taken or f"the pod runs on node {_node(pod)}",
            preempted=bool(taken),
            started_at_ms=_started_ms(pod),
        )
    if taken:
        return Observation(state=MachineState.PENDING, detail=taken, preempted=True)
    return _observe_pending(pod, limits, now)


def observe_job_without_pod(
    job: Json, *, pod_was_seen: bool, limits: StatusLimits, now: float
) -> Observation:
    """Return the state of an attempt whose Job exists, but not its pod."""
    failed = _true_condition(job, "Failed")
    if has_reached_deadline(job):
        return Observation(state=MachineState.EXITED, detail=DEADLINE_TEXT, end_cause=DEADLINE)
    if failed is not None:
        detail = f"the Job has failed: {failed.get('reason', '')}: {failed.get('message', '')}"
        return Observation(state=MachineState.EXITED, detail=detail, preempted=pod_was_seen)
    if _true_condition(job, "Complete") is not None:
        return Observation(state=MachineState.EXITED, detail="the Job is complete")
    if pod_was_seen:
        return Observation(
            state=MachineState.EXITED, detail="the pod was deleted from the cluster", preempted=True
        )
    return _observe_uncreated(job, limits, now)


def _observe_uncreated(job: Json, limits: StatusLimits, now: float) -> Observation:
    """Describe a Job whose pod Kubernetes does not create. Only its events, which are not read, have the reason."""
    metadata = job.get("metadata") or {}
    if (job.get("spec") or {}).get("suspend"):
        text = "the Job is suspended, so Kubernetes creates no pod"
        return Observation(state=MachineState.PENDING, detail=text, queued=True)
    text = "Kubernetes has not created the pod yet"
    if now - _time_s(_created(job), now) <= limits.start_limit_s:
        return Observation(state=MachineState.PENDING, detail=text, queued=True)
    message = (
        f"Kubernetes has not created the pod of the Job within {limits.start_limit_s:g} s. A quota of the namespace, "
        "or a rule of the cluster about priority classes, service accounts or pod security may forbid it; `kubectl "
        f"describe job --namespace {metadata.get('namespace')} {metadata.get('name')}` shows the reason"
    )
    failure = Failure(code="quota", message=message, blame=Blame.LAUNCH)
    return Observation(state=MachineState.PENDING, detail=text, failure=failure, queued=True)


def has_reached_deadline(job: Json) -> bool:
    """Return whether Kubernetes ends the Job because of its time limit.

    Versions since 1.31 set the condition Failed only after the pod has ended, and FailureTarget before.
    """
    found = _true_condition(job, "Failed") or _true_condition(job, "FailureTarget") or {}
    return found.get("reason") == "DeadlineExceeded"


def lost_node(pod: Json) -> Observation:
    """Return the state of an attempt whose node no longer exists."""
    return Observation(
        state=MachineState.EXITED,
        detail=f"the node {_node(pod)} was removed from the cluster",
        preempted=True,
        started_at_ms=_started_ms(pod),
    )


def unreachable_node(pod: Json) -> Observation:
    """Return the state of an attempt that this server has ended, on a node that does not answer.

    Kubernetes keeps the pod until the node returns and ends it, or is removed.
    """
    return Observation(
        state=MachineState.ABSENT,
        detail=f"the node {_node(pod)} does not answer; its pod is marked for deletion and ends when the node returns",
        started_at_ms=_started_ms(pod),
    )


def is_marked_for_deletion(pod: Json) -> bool:
    return bool((pod.get("metadata") or {}).get("deletionTimestamp"))


def is_running(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running"


def has_ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in (
        "Succeeded",
        "Failed",
    ) or "terminated" in _container_state(pod)


def is_taken(pod: Json) -> bool:
    """Return whether the pod is being deleted or is about to be."""
    return bool(_disruption(pod))


def has_ended_job(job: Json) -> bool:
    return any(_true_condition(job, kind) is not None for kind in ("Failed", "Complete"))


def _observe_pending(pod: Json, limits: StatusLimits, now: float) -> Observation:
    waiting = _container_state(pod).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.get("status") == "False":
        return _observe_unschedulable(scheduled, pod, limits, now)
    age_s = now - _time_s((scheduled or {}).get("lastTransitionTime") or _created(pod), now)
    detail, failure = _describe_start(pod, reason, message, limits, age_s)
    return Observation(
        state=MachineState.PENDING, detail=detail, failure=failure, start_limit_s=limits.start_limit_s
    )


def _describe_start(
    pod: Json, reason: str, message: str, limits: StatusLimits, age_s: float
) -> tuple[str, Failure | None]:
    """Return what the container of a pod waits for, and why it fails, if it does."""
    if reason in PULL_REASONS:
        text = f"the image {image_of(pod)} cannot be pulled: {reason}: {message}"[:MESSAGE_CHARS]
        late = reason in HOPELESS_REASONS or age_s > limits.start_limit_s
        failure = _pull_failure(text, limits) if late else None
        return text, failure
    if reason in CREATE_REASONS:
        text = f"the container cannot be created: {reason}: {message}"[:MESSAGE_CHARS]
        late = age_s > limits.start_limit_s
        failure = Failure(code="launch_refused", message=text, blame=Blame.LAUNCH) if late else None
        return text, failure
    what = f"{reason} {message}".strip() or "its container starts"
    return f"the pod is on node {_node(pod)}: {what}", None


def _observe_unschedulable(scheduled: Json, pod: Json, limits: StatusLimits, now: float) -> Observation:
    text = f"the pod cannot be scheduled: {scheduled.get('reason', '')}: {scheduled.get('message', '')}"[
        :MESSAGE_CHARS
    ]
    failure = None
    if now - _time_s(_created(pod), now) > limits.schedule_limit_s:
        failure = Failure(code="no_capacity", message=text, blame=Blame.LAUNCH)
    return Observation(state=MachineState.PENDING, detail=text, failure=failure, queued=True)


def _pull_failure(text: str, limits: StatusLimits) -> Failure:
    if limits.image_of_job:
        hint = "Correct `image` in the spec, or give the backend a pull secret for its registry."
        return Failure(code="image", message=f"{text}. {hint}", blame=Blame.USER)
    hint = "Correct the option `image` of the backend, or its `image_pull_secrets`."
    return Failure(code="image", message=f"{text}. {hint}", blame=Blame.LAUNCH)


def _observe_ended(pod: Json, limits: StatusLimits) -> Observation:
    status = pod.get("status") or {}
    terminated = _container_state(pod).get("terminated") or {}
    reason = status.get("reason") or terminated.get("reason") or ""
    detail = _end_text(pod, reason, status.get("message") or "", terminated)
    return Observation(
        state=MachineState.EXITED,
        detail=detail,
        preempted=_was_taken(pod, reason, status.get("message") or ""),
        started_at_ms=_started_ms(pod),
        ended_at_ms=_time_ms(terminated.get("finishedAt")),
        failure=_start_failure(reason, terminated, detail, limits),
        end_cause=_end_cause(pod, reason, detail),
    )


def _end_text(pod: Json, reason: str, message: str, terminated: Json) -> str:
    if reason == OUT_OF_MEMORY and (limit := _memory_limit(pod)):
        return f"the container exceeded its memory limit of {limit} (OOMKilled) on node {_node(pod)}"
    if reason == OUT_OF_MEMORY:
        return f"the node {_node(pod)} ran out of memory, and the container was killed (OOMKilled)"
    if not terminated:
        return f"the pod failed on node {_node(pod)}: {reason} {message}"[:MESSAGE_CHARS].rstrip()
    code = terminated.get("exitCode")
    why = "" if reason in ("Completed", "Error", "") else f": {reason} {message}".rstrip()
    output = (terminated.get("message") or "").strip()
    tail = f"; its output ends with:\n{output}" if output and code else ""
    return f"the container ended with exit code {code} on node {_node(pod)}{why}{tail}"[-MESSAGE_CHARS:]


def _was_taken(pod: Json, reason: str, message: str) -> bool:
    is_own_fault = any(word in message for word in OWN_FAULT) and not message.startswith(NODE_PRESSURE)
    if reason == "Evicted" and is_own_fault:
        return False
    return reason in TAKEN_REASONS or _true_condition(pod, "DisruptionTarget") is not None


def _start_failure(reason: str, terminated: Json, detail: str, limits: StatusLimits) -> Failure | None:
    """Return why the attempt never began. It is used only if no agent has claimed the attempt."""
    if reason.startswith(NO_ROOM_REASONS):
        return Failure(code="no_capacity", message=detail, blame=Blame.LAUNCH)
    code, blame = terminated.get("exitCode"), Blame.USER if limits.image_of_job else Blame.LAUNCH
    if reason in NO_SHELL_REASONS:
        text = f"{detail}. The image needs /bin/sh and Python 3.9 or newer, for the processor of the node"
        return Failure(code="failed_to_start", message=text, blame=blame)
    if code == NO_PYTHON_CODE:
        return Failure(code="failed_to_start", message=detail, blame=blame)
    if code and reason in ("Error", ""):
        return Failure(code="launch_refused", message=detail, blame=Blame.LAUNCH)
    return None


def _end_cause(pod: Json, reason: str, detail: str) -> Failure | None:
    """Return why the container ended. It is the job's own fault if it used more memory than its limit."""
    if reason != OUT_OF_MEMORY:
        return None
    blame = Blame.USER if _memory_limit(pod) else Blame.INFRASTRUCTURE
    hint = "Request more memory (resources.memory, --memory), or use a smaller batch size or fewer data loader workers."
    return Failure(code="out_of_memory", message=f"{detail}. {hint}", blame=blame)


def _disruption(pod: Json) -> str:
    """Return why the cluster takes the pod away; empty if it does not."""
    condition = _true_condition(pod, "DisruptionTarget")
    if condition is not None:
        return (
            f"the cluster takes the pod away: {condition.get('reason', '')}: {condition.get('message', '')}"
        )
    if is_marked_for_deletion(pod):
        return "the pod is being deleted, and not by this server"
    return ""


def _container_state(pod: Json) -> Json:
    """Return the state of the job's container. The list is sorted by name and may have other containers."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    state: Json = next((each.get("state") or {} for each in statuses if each.get("name") == CONTAINER), {})
    return state


def _condition(thing: Json, kind: str) -> Json | None:
    """Return the condition of this type, whether it is true or false."""
    for condition in (thing.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: Json = condition
            return found
    return None


def _true_condition(thing: Json, kind: str) -> Json | None:
    found = _condition(thing, kind)
    return found if found is not None and found.get("status") == "True" else None


def _node(pod: Json) -> str:
    return (pod.get("spec") or {}).get("nodeName") or "(none)"


def image_of(pod: Json) -> str:
    """Return the image of the job's container."""
    return str(_container(pod).get("image", ""))


def _memory_limit(pod: Json) -> str:
    """Return the memory limit of the job's container; empty if neither the job nor the cluster has set one."""
    return str(((_container(pod).get("resources") or {}).get("limits") or {}).get("memory", ""))


def _container(pod: Json) -> Json:
    containers = (pod.get("spec") or {}).get("containers") or ()
    return next((each for each in containers if each.get("name") == CONTAINER), {})


def _created(thing: Json) -> str | None:
    created: str | None = (thing.get("metadata") or {}).get("creationTimestamp")
    return created


def _started_ms(pod: Json) -> int | None:
    state = _container_state(pod)
    started = (state.get("running") or state.get("terminated") or {}).get("startedAt")
    return _time_ms(started)


def _time_ms(text: str | None) -> int | None:
    """Return a time in milliseconds. A container that could not be started has the start 1970-01-01, which is none."""
    return round(_time_s(text, 0) * 1000) or None if text else None


def _time_s(text: str | None, default: float) -> float:
    """Return a time of the API server as Unix seconds."""
    if not text:
        return default
    try:
        return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return default
