"""Convert the states of jobs to the JSON objects that `anygpu.api.jobs` describes."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anygpu.bounds import PROGRESS, valid_progress
from anygpu.control.accounting.money import cost_at, format_dollars
from anygpu.control.progress import deadline_ms
from anygpu.control.resume import FirstSteps
from anygpu.events.facts import CheckpointRef, Failure, Prediction
from anygpu.events.view import AttemptView, JobView
from anygpu.server.encoding import format_optional_time, format_time
from anygpu.server.jobs.attempts import describe_end, render_attempt, resume_state
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.sections import Dataset, Workdir
from anygpu.store.main_metric import spark_of
from anygpu.store.reports import MainMetric, ReportState, SeriesSummary

JsonObject = dict[str, Any]
NOTHING = ReportState()
GAINS = ("saves_microusd", "saves_low_microusd", "sooner_s", "sooner_low_s")


def render_job(
    view: JobView,
    row: ReportState,
    series: Sequence[SeriesSummary],
    *,
    earlier: ReportState = NOTHING,
    recent_logs: Sequence[str] = (),
    queue_position: int | None,
    queue_wait_s: float | None = None,
    now_ms: int,
) -> JsonObject:
    """Return everything about a job, as `JobDetails`."""
    return {
        **render_summary(view, row, earlier=earlier, queue_position=queue_position, now_ms=now_ms),
        "metrics": {each.name: each.last for each in series},
        "attempts": [render_attempt(view, each, now_ms) for each in view.attempts],
        "telemetry": dict(row.telemetry),
        "predicted": render_prediction(view.predicted),
        "prediction": render_prediction(view.prediction),
        "estimated_remaining": render_remaining_work(view, now_ms),
        "recent_logs": list(recent_logs),
        "queue_wait_s": queue_wait_s,
        "better": render_better_offer(view),
        "code": _render_code(view.spec),
        "data": _render_data(view.spec.dataset),
        "spec": view.spec.model_dump(mode="json", exclude_defaults=True),
    }


def render_summary(
    view: JobView,
    row: ReportState,
    *,
    earlier: ReportState = NOTHING,
    queue_position: int | None,
    now_ms: int,
) -> JsonObject:
    """Return the entry of a job in a list, as `JobSummary`.

    `earlier` has the reports of an earlier attempt, which are shown until the newest one reports.
    """
    newest = view.newest_attempt
    return {
        "id": view.id,
        "name": view.name,
        "status": str(view.status),
        "phase": str(view.phase),
        "reason": view.reason,
        "submitted_at": format_time(view.submitted_at_ms),
        "started_at": format_time(view.attempts[0].launching_at_ms) if view.attempts else None,
        "updated_at": format_time(view.updated_at_ms),
        "ended_at": format_optional_time(view.ended_at_ms),
        "person": view.person,
        "tags": list(view.tags),
        "notes": view.notes,
        "backend": newest.offer.backend if newest else None,
        "place": _render_place(newest) if newest else None,
        "execution_id": newest.name if newest else None,
        "progress": (progress := render_progress(view, row.progress or earlier.progress)),
        "attempt": newest.number if newest else 0,
        "checkpoint": _render_checkpoint(view.newest_checkpoint),
        "artifacts": len(view.artifacts),
        "work_lost_s": view.work_lost_s,
        "work_lost_microusd": view.work_lost_microusd,
        "resume": None if newest is None else render_resume(newest, row),
        "cost_microusd": cost_at(view, now_ms),
        "max_cost_microusd": view.spec.limits.max_cost_microusd,
        "deadline_at": format_optional_time(deadline_ms(view)),
        "remaining": render_remaining_work(view, now_ms),
        "main_metric": render_main_metric(row.main_metric or earlier.main_metric),
        "attempt_marks": attempt_marks(view, progress),
        "interruptions": count_interruptions(view),
        "retries_used": view.retries_used,
        "resumed_from": view.resumed_from,
        "cancel_requested": view.cancel_requested,
        "start_requested": view.start_requested_at_ms is not None,
        "failure": _render_failure(view.failure),
        "queue_position": queue_position,
        "damaged": view.damaged or None,
    }


def _render_place(attempt: AttemptView) -> JsonObject:
    return {**attempt.offer.place_fields(), "price_microusd_per_hour": attempt.hourly_microusd}


def render_progress(view: JobView, reported: Mapping[str, Any]) -> JsonObject:
    """Return the progress of a job. The fraction of a completed job is 1, whatever its script has printed."""
    # Rows of older servers can have values that the report format no longer accepts.
    valid = valid_progress(reported)
    progress = {name: valid.get(name) for name in PROGRESS}
    return {**progress, "fraction": 1.0} if view.status == "completed" else progress


def render_prediction(prediction: Prediction | None) -> JsonObject | None:
    return None if prediction is None else asdict(prediction)


def render_remaining_work(view: JobView, now_ms: int) -> JsonObject | None:
    """Return the predicted time and cost until the end of a job; None without a prediction or after the end."""
    predicted = view.prediction
    if predicted is None or view.is_terminal:
        return None
    elapsed_s = (now_ms - view.attempts[0].launching_at_ms) / 1000 if view.attempts else 0.0
    spent = cost_at(view, now_ms)
    return {
        "seconds": max(0.0, predicted.wall_s - elapsed_s),
        "low_s": max(0.0, predicted.wall_low_s - elapsed_s),
        "high_s": max(0.0, predicted.wall_high_s - elapsed_s),
        "cost_microusd": max(0, predicted.cost_microusd - spent),
        "cost_low_microusd": max(0, predicted.cost_low_microusd - spent),
        "cost_high_microusd": max(0, predicted.cost_high_microusd - spent),
    }


def render_main_metric(metric: MainMetric | None) -> JsonObject | None:
    if metric is None:
        return None
    return {"name": metric.name, "value": metric.value, "step": metric.step, "spark": spark_of(metric)}


def attempt_marks(view: JobView, progress: Mapping[str, Any]) -> list[float]:
    """Return the fractions of the work at which the job continued on another machine."""
    marks = (_resume_fraction(attempt.resume, progress) for attempt in view.attempts[1:])
    return sorted({round(mark, 4) for mark in marks if mark is not None and 0 < mark < 1})


def _resume_fraction(checkpoint: CheckpointRef | None, progress: Mapping[str, Any]) -> float | None:
    if checkpoint is None:
        return None
    if progress["epochs"] and (checkpoint.epoch is not None or checkpoint.unit == "epoch"):
        done = checkpoint.step if checkpoint.epoch is None else checkpoint.epoch
        return float(done / progress["epochs"])
    return float(checkpoint.step / progress["steps"]) if progress["steps"] else None


def count_interruptions(view: JobView) -> int:
    """Return how often training stopped because a machine was taken away or lost."""
    trained = [each for each in view.attempts if each.training_at_ms is not None and each.is_over]
    ends = [end for each in trained if (end := describe_end(view, each)) is not None]
    return sum(end.kind in ("interrupted", "lost") for end in ends)


def last_lines(data: bytes, count: int) -> list[str]:
    """Return the last `count` lines of a log. Of a line that a carriage return overwrote, the newest text is kept."""
    text = data.decode(errors="replace").replace("\r\n", "\n")
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return [line for line in lines if line.strip()][-count:]


def render_better_offer(view: JobView) -> JsonObject | None:
    """Return the better offer for the rest of the job; None if there is none or the job is stopping or has ended."""
    live, better = view.live_attempt, view.better
    if better is None or live is None or live.stop_reason is not None:
        return None
    names = ("backend", "name", "region", "zone", "gpu_kind", "gpu_count", "interruptible")
    location = {name: getattr(better.offer, name) for name in (*names, "price_microusd_per_hour")}
    return {
        "place": location,
        **{name: getattr(better, name) for name in GAINS},
        "by_itself": better.by_itself,
    }


def render_resume(attempt: AttemptView, row: ReportState) -> JsonObject | None:
    """Return what is known about the resume of an attempt, as `ResumeDetails`."""
    if attempt.resume is None:
        return None
    return {
        "state": resume_state(attempt),
        "checkpoint_step": attempt.resume.step,
        "first_step": attempt.first_step,
        "work_lost_s": attempt.restart_lost_s,
        "work_lost_microusd": attempt.restart_lost_microusd,
        "message": _resume_text(attempt, row),
    }


def _resume_text(attempt: AttemptView, row: ReportState) -> str:
    step = attempt.resume.step if attempt.resume else 0
    if attempt.resumed:
        return f"resumed from the checkpoint of step {step}; the first reported step is {attempt.first_step}"
    if attempt.resumed is False:
        minutes, dollars = attempt.restart_lost_s / 60, format_dollars(attempt.restart_lost_microusd)
        return (
            f"restarted from the beginning: {minutes:.1f} min and {dollars} of work lost; the checkpoint of step"
            f" {step} was restored, but the first reported step is {attempt.first_step}"
        )
    restored = f"checkpoint of step {step} restored"
    if FirstSteps.read(row.progress).shown is not None:
        return f"{restored}; the reported steps do not show whether the script resumed"
    if attempt.is_over or attempt.training_at_ms is not None:
        return f"{restored}; the script reports no steps, so resuming cannot be verified"
    return restored if attempt.claimant else f"checkpoint of step {step} will be restored"


def _render_code(spec: JobSpec) -> JsonObject:
    workdir = spec.workdir or Workdir()
    if workdir.manifest is not None:
        kind, sha256 = "snapshot", workdir.manifest
    elif workdir.archive is not None:
        kind, sha256 = "archive", workdir.archive
    elif spec.code is not None:
        kind, sha256 = "inline", hashlib.sha256(spec.code.encode()).hexdigest()
    else:
        return {"kind": "in_place" if workdir.in_place else "none", "sha256": None, "path": workdir.path}
    return {"kind": kind, "sha256": sha256, "path": workdir.path}


def _render_data(dataset: Dataset | None) -> JsonObject | None:
    if dataset is None:
        return None
    name = f"{dataset.name}@{dataset.version}" if dataset.version else dataset.name
    parts = dataset.parts
    several = hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else None
    return {
        "kind": dataset.kind,
        "source": str(dataset.path or dataset.url or name),
        "sha256": parts[0] if len(parts) == 1 else several,
        "parts": len(parts),
    }


def _render_checkpoint(saved: CheckpointRef | None) -> JsonObject | None:
    return None if saved is None else {"step": saved.step, "saved_at": format_time(saved.saved_at_ms)}


def _render_failure(failure: Failure | None) -> JsonObject | None:
    return None if failure is None else {**asdict(failure), "blame": str(failure.blame)}
