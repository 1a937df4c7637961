"""Decide whether an attempt is lost although its agent has not reported its end. Pure functions.

Typical reasons: the launch failed, the provider reports that the machine is gone, or too much time and too
many probes have passed without a heartbeat.
"""

from anygpu.backends.contract import MachineState
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.observation import AttemptObservation
from anygpu.control.reconcile.verdict import LAUNCH_UNKNOWN_CODE, blame_for_stop
from anygpu.events.facts import Blame, Failure
from anygpu.events.view import AttemptView, JobView


def detect_loss(
    view: JobView, attempt: AttemptView, observed: AttemptObservation, policy: ControlPolicy
) -> Failure | None:
    """Return why the attempt counts as lost, or None while the attempt may be alive."""
    if observed.refusal is not None:
        return observed.refusal
    if view.cancel_requested and (
        not attempt.is_claimed or observed.stop_requested_s > policy.cancel_limit_s
    ):
        return Failure(
            code="cancelled", message="the job was cancelled before the attempt ended", blame=Blame.PLATFORM
        )
    if not attempt.is_claimed and must_migrate(view, attempt):
        text = f"a user asked to continue the job on backend {view.migrate_to}"
        return Failure(code="migrate", message=text, blame=Blame.PREEMPTION)
    if is_unreachable(observed, policy) and attempt.handle is None and not attempt.is_claimed:
        return Failure(code="backend_missing", message=observed.unreachable, blame=Blame.LAUNCH)
    if observed.launch_failures >= policy.max_launch_tries:
        text = f"the provider did not answer {observed.launch_failures} requests to start the machine"
        cause = f": {observed.probe.detail}" if observed.probe is not None and observed.probe.detail else ""
        code = "launch_error" if observed.launch_is_broken else LAUNCH_UNKNOWN_CODE
        return Failure(code=code, message=f"{text}{cause}", blame=Blame.LAUNCH)
    return _loss_by_provider(attempt, observed, policy) or _loss_by_silence(attempt, observed, policy)


def _loss_by_provider(
    attempt: AttemptView, observed: AttemptObservation, policy: ControlPolicy
) -> Failure | None:
    observation = observed.observation
    if observation is None or (attempt.handle is None and attempt.claimant is None):
        return None
    if observation.failure is not None and not attempt.is_claimed:
        return observation.failure
    # Provider lists lag and have gaps: an agent that sends heartbeats exists, whatever the list says.
    absent = is_absent(observed, policy) and observed.silent_s >= policy.absence_s
    if observation.state not in (MachineState.GONE, MachineState.EXITED) and not absent:
        return None
    if observation.end_cause is not None:
        return observation.end_cause
    blame = Blame.PREEMPTION if observation.preempted else Blame.INFRASTRUCTURE
    code = "preempted" if observation.preempted else "machine_lost"
    return Failure(
        code=code,
        message=f"the machine was lost ({observation.state}): "
        f"{observation.detail or 'the provider gave no reason'}",
        blame=blame,
    )


def _loss_by_silence(
    attempt: AttemptView, observed: AttemptObservation, policy: ControlPolicy
) -> Failure | None:
    enough = observed.silent_probes >= policy.probes_before_lost
    if not attempt.is_claimed:
        if attempt.handle is not None and observed.state_s > policy.claim_limit_s and enough:
            text = f"{_missing_agents(attempt)} did not start within {observed.state_s:.0f} s; {observed.summary}"
            return Failure(code="never_started", message=text, blame=Blame.LAUNCH)
        return None
    if attempt.stop_reason is not None and observed.stop_requested_s > policy.stop_limit_for(
        attempt.stop_reason
    ):
        text = (
            f"the agent did not report the end of the job within {observed.stop_requested_s:.0f} s after the "
            f"request to stop ({attempt.stop_reason})"
        )
        blame = blame_for_stop(attempt.stop_reason)
        return Failure(code=attempt.stop_reason, message=text, blame=blame)
    if attempt.has_failed_node and observed.stop_requested_s > policy.stop_limit_s:
        text = (
            f"a node of the attempt failed, and the others did not report their end within "
            f"{observed.stop_requested_s:.0f} s"
        )
        return Failure(code="nodes_not_ended", message=text, blame=Blame.INFRASTRUCTURE)
    if observed.claimed and observed.silent_s > policy.silence_limit_for(attempt.offer) and enough:
        text = (
            f"{_agent_text(attempt, observed)} sent nothing for {observed.silent_s:.0f} s, and "
            f"{observed.silent_probes} checks of its machine did not help; {observed.summary}"
        )
        return Failure(code="silent", message=text, blame=Blame.INFRASTRUCTURE)
    return None


def _agent_text(attempt: AttemptView, observed: AttemptObservation) -> str:
    return f"the agent of node {observed.silent_node}" if attempt.nodes else "the agent"


def _missing_agents(attempt: AttemptView) -> str:
    if not attempt.nodes:
        return "the agent"
    missing = [str(number) for number, node in enumerate(attempt.nodes) if node.claimant is None]
    listed = ", ".join(missing[:10])
    return f"nothing has run, because the agents of {len(missing)} of {attempt.node_count} nodes ({listed})"


def is_absent(observed: AttemptObservation, policy: ControlPolicy) -> bool:
    """Return whether the machine counts as gone because the provider's lists lack it.

    Provider lists lag behind and sometimes omit machines, so a machine counts as gone only after it was missing
    for a minimum time and in several probes.
    """
    return observed.absent_s >= policy.absence_s and observed.absent_probes >= policy.probes_before_lost


def is_unreachable(observed: AttemptObservation, policy: ControlPolicy) -> bool:
    """Return whether the backend has been unavailable long enough to count as unreachable.

    A backend may be unavailable for a shorter time while the server starts.
    """
    return bool(observed.unreachable) and observed.unreachable_s >= policy.absence_s


def must_migrate(view: JobView, attempt: AttemptView) -> bool:
    """Return whether the attempt has to stop because the user asked for a migration.

    False if the attempt already runs at the requested backend and no better offer is known there.
    """
    wanted, found = view.migrate_to, view.better
    here = wanted == attempt.offer.backend and (found is None or found.offer.backend != wanted)
    return bool(wanted) and not here
