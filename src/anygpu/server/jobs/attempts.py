"""Convert the attempts of a job to the JSON objects that `AttemptDetails` describes, and say why each one ended."""

from dataclasses import dataclass
from typing import Any

from anygpu.control.accounting.money import running_cost
from anygpu.control.reconcile.verdict import failure_of
from anygpu.events.facts import PLANNED_STOPS, Blame, Failure
from anygpu.events.view import AttemptView, JobView, NodeView
from anygpu.server.encoding import format_optional_time, format_time

MIGRATIONS = {
    "migrate": "moved on request",
    "handover": "moved before the machine's time limit ended",
    "deadline": "moved to meet the deadline",
    "cheaper": "moved to a better machine",
}
STOPS = {"timeout": "time limit reached", "budget": "budget used up"}
LOSSES = {
    "silent": "the machine stopped answering",
    "machine_lost": "the machine is gone",
    "nodes_not_ended": "a node failed, and others did not end",
    "time_limit": "the time limit of the engine ended it",
    "node_failed": "its node failed",
    "cancelled_by_engine": "it was cancelled in the engine",
}
LAUNCH_FAILURES = {
    "no_capacity": "no machine available",
    "quota": "refused: quota used up",
    "credentials_refused": "refused: credentials not accepted",
    "cluster_access": "refused: missing rights in the cluster",
    "never_started": "the machine never started",
    "launch_unknown": "the provider did not answer",
    "launch_error": "the backend failed to start the machine",
    "backend_missing": "the backend is not configured",
    "backend_unavailable": "the backend could not be reached",
}


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended: a kind for programs, and a text for people.

    `notice` says whether the machine announced that it would be taken away; None if it was not taken away.
    """

    kind: str  # completed | cancelled | failed | interrupted | lost | migrated | stopped | not_started
    text: str
    notice: bool | None = None


def render_attempt(view: JobView, attempt: AttemptView, now_ms: int) -> dict[str, Any]:
    """Return one attempt, as `AttemptDetails`."""
    offer, end = attempt.offer, describe_end(view, attempt)
    return {
        "number": attempt.number,
        "name": attempt.name,
        "backend": offer.backend,
        "offer": offer.name,
        "region": offer.region,
        "zone": offer.zone,
        "gpu": offer.gpu_kind,
        "gpus": offer.gpu_count,
        "own": offer.own,
        "interruptible": offer.interruptible,
        "price_microusd_per_hour": attempt.hourly_microusd,
        "cost_microusd": attempt_cost_microusd(attempt, now_ms),
        "metered_microusd": attempt.metered_microusd,
        "phase": attempt_phase(attempt),
        "outcome": attempt.outcome or (attempt.lost.code if attempt.lost else None),
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "message": attempt.message or (attempt.lost.message if attempt.lost else ""),
        "launching_at": format_time(attempt.launching_at_ms),
        "started_at": format_optional_time(attempt.started_at_ms),
        "training_at": format_optional_time(attempt.training_at_ms),
        "ended_at": format_optional_time(attempt.ended_at_ms),
        "released_at": format_optional_time(attempt.released_at_ms),
        "held_until": format_optional_time(attempt.held_until_ms) if attempt.is_held else None,
        "end_kind": end.kind if end else None,
        "end_text": end.text if end else "",
        "notice": end.notice if end else None,
        "work_lost_s": attempt.work_lost_s,
        "work_lost_microusd": attempt.work_lost_microusd,
        "restart_lost_s": attempt.restart_lost_s,
        "restart_lost_microusd": attempt.restart_lost_microusd,
        "checkpoints_saved": attempt.checkpoints_saved,
        "checkpoints": [
            {"step": mark.step, "saved_at": format_time(mark.saved_at_ms)}
            for mark in attempt.checkpoint_marks
        ],
        "resume_step": attempt.resume.step if attempt.resume else None,
        "resume_state": resume_state(attempt),
        "nodes": [_render_node(number, node) for number, node in enumerate(attempt.nodes)],
        "processes_per_node": view.spec.local_processes,
    }


def _render_node(number: int, node: NodeView) -> dict[str, Any]:
    return {
        "node": number,
        "host": node.host,
        "state": node.state,
        "outcome": node.outcome,
        "exit_code": node.exit_code,
        "signal": node.signal,
        "message": node.message,
    }


def describe_end(view: JobView, attempt: AttemptView) -> AttemptEnd | None:
    """Return how an attempt ended; None while it runs."""
    if not attempt.is_over:
        return None
    if attempt.outcome == "cancelled" or (attempt.lost is not None and attempt.lost.code == "cancelled"):
        return AttemptEnd("cancelled", "cancelled")
    failure = attempt.failure or failure_of(view, attempt)
    if failure is None:
        return AttemptEnd("completed", "finished")
    return _describe_failure(attempt, failure)


def _describe_failure(attempt: AttemptView, failure: Failure) -> AttemptEnd:
    code = failure.code
    if code in PLANNED_STOPS:
        return AttemptEnd("migrated", MIGRATIONS[code])
    if code in STOPS:
        return AttemptEnd("stopped", STOPS[code])
    if failure.blame is Blame.LAUNCH:
        return AttemptEnd("not_started", LAUNCH_FAILURES.get(code, "the machine was not started"))
    if failure.blame is Blame.PREEMPTION:
        return _describe_preemption(attempt)
    if failure.blame is Blame.INFRASTRUCTURE and attempt.lost is not None:
        return AttemptEnd("lost", LOSSES.get(code, "the machine was lost"), notice=False)
    return AttemptEnd("failed", _failure_text(attempt, failure))


def _describe_preemption(attempt: AttemptView) -> AttemptEnd:
    if attempt.makes_room_for:
        return AttemptEnd("interrupted", "stopped to free its slots for another job", notice=True)
    if attempt.lost is not None:
        return AttemptEnd("interrupted", "the provider took the machine back without notice", notice=False)
    return AttemptEnd("interrupted", "the provider took the machine back with notice", notice=True)


def _failure_text(attempt: AttemptView, failure: Failure) -> str:
    if failure.code == "out_of_memory":
        return "out of memory"
    if failure.code == "failed_to_start":
        return "the script could not be started"
    if failure.code == "not_restored":
        return "a node could not restore the checkpoint"
    if attempt.signal is not None:
        return f"killed by signal {attempt.signal}"
    return f"exit code {attempt.exit_code}" if attempt.exit_code else failure.message[:200]


def attempt_cost_microusd(attempt: AttemptView, now_ms: int) -> int:
    """Return the cost of an attempt: the recorded cost if its machine is gone, else an estimate until `now_ms`."""
    if attempt.is_released:
        return attempt.cost_microusd
    began_ms = attempt.started_at_ms or attempt.launching_at_ms
    return running_cost(attempt, (now_ms - began_ms) / 1000)


def attempt_phase(attempt: AttemptView) -> str:
    if attempt.is_released:
        return "ended"
    if attempt.is_over:
        return "finishing"
    if attempt.stop_reason:
        return "checkpointing"
    if attempt.training_at_ms is not None:
        return "training"
    return "preparing" if attempt.claimant else "provisioning"


def resume_state(attempt: AttemptView) -> str | None:
    """Return `verified`, `restarted`, or `restored` if nothing shows yet whether the script resumed.

    None for an attempt without a checkpoint.
    """
    if attempt.resume is None:
        return None
    return {True: "verified", False: "restarted", None: "restored"}[attempt.resumed]
