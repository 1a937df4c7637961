"""Build the assignment that an agent receives when it claims an attempt.

The format is in docs/reference/agent-protocol.md.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.control.policy import ControlPolicy
from anygpu.control.progress import used_time_s
from anygpu.events.offers import LOCAL
from anygpu.events.view import AttemptView, JobView
from anygpu.spec.ignore import DEFAULT_NAMES, DEFAULT_SUFFIXES
from anygpu.spec.jobspec import JobSpec

TRACKERS = ("mlflow", "wandb")  # trackers that need a package; the extra has the same name
LOG_LINE_LIMIT = 64 * 1024
SPOOL_LIMIT_BYTES = 256 * 1024 * 1024


def build_assignment(
    view: JobView,
    attempt: AttemptView,
    policy: ControlPolicy,
    *,
    secrets: Mapping[str, str],
    archive: Mapping[str, Any] | None,
    data: Sequence[Mapping[str, Any]] = (),
    resume: Mapping[str, Any] | None,
    node: int = 0,
) -> dict[str, Any]:
    spec = view.spec
    directory = in_place_directory(view, attempt, policy)
    return {
        **_entry_point(spec, spec.script if directory else spec.script_in_copy),
        "python": spec.python,
        "image": spec.image,
        "env": {**spec.env, **_tracker_env(spec)},
        "secrets": dict(secrets),
        "archive": archive,
        **({"directory": directory} if directory else {}),
        "subdir": spec.workdir.subdir if spec.workdir else "",
        "requirements": _requirements(spec, attempt),
        "setup": list(spec.setup),
        "dataset": _dataset(spec, data),
        "outputs": list(spec.outputs),
        **({} if directory else _results(spec, policy)),
        "checkpoint": {
            "paths": list(spec.checkpoint.paths),
            "every_s": spec.checkpoint.every_s,
            "keep": spec.checkpoint.keep,
            "resume_args": list(spec.checkpoint.resume_args),
            **_world_size(spec),
        },
        "resume": resume,
        **_ranks(spec, attempt, node),
        "timeout_s": _time_left_s(view, attempt, policy),
        "grace_s": policy.grace_s,
        "log_line_limit": LOG_LINE_LIMIT,
        "spool_limit_bytes": SPOOL_LIMIT_BYTES,
    }


def _ranks(spec: JobSpec, attempt: AttemptView, node: int) -> dict[str, Any]:
    """Return how the processes start, for jobs with several nodes or a launcher."""
    if attempt.node_count == 1 and spec.launcher == "none":
        return {}
    ranks = {
        "node": node,
        "nodes": attempt.node_count,
        "launcher": spec.launcher,
        "processes_per_node": spec.local_processes,
    }
    return {"ranks": ranks}


def _entry_point(spec: JobSpec, script: str | None) -> dict[str, Any]:
    run: dict[str, Any] = {"argv": None, "shell": None, "code": None}
    if spec.script is not None:
        run["argv"] = ["python", script or spec.script, *spec.args]
    elif isinstance(spec.command, str):
        run["shell"] = spec.command
    elif spec.command is not None:
        run["argv"] = list(spec.command)
    elif spec.trainer is not None:
        run["argv"] = [
            "python",
            "-m",
            "anygpu.trainers",
            spec.trainer,
            json.dumps(spec.config, sort_keys=True),
            *_process_arguments(spec),
        ]
    else:
        run["code"] = spec.code
    return run


def _process_arguments(spec: JobSpec) -> list[str]:
    """Return the arguments with which a built-in trainer uses all GPUs of the job."""
    count = _trainer_processes(spec)
    return ["--processes", str(count)] if count > 1 else []


def _world_size(spec: JobSpec) -> dict[str, int]:
    """Return the number of processes that checkpoints record, for a trainer that starts several itself."""
    count = _trainer_processes(spec) if spec.trainer is not None else 1
    return {"world_size": count} if count > 1 else {}


def _trainer_processes(spec: JobSpec) -> int:
    from anygpu.spec.checks.trainer import trainer_processes
    from anygpu.trainers.registry import can_use_several_gpus

    return trainer_processes(spec) if can_use_several_gpus(str(spec.trainer)) else 1


def in_place_directory(view: JobView, attempt: AttemptView, policy: ControlPolicy) -> str | None:
    """Return the directory in which the job runs in place; None if the job runs in a directory of its own.

    A directory of the server's machine is used only for attempts on this machine, and only for jobs of the
    server's own organisation. An agent on this machine has the server's version, so it knows the field.
    """
    is_here = attempt.offer.backend == LOCAL and view.organisation == policy.own_organisation
    return view.spec.in_place if is_here else None


def _results(spec: JobSpec, policy: ControlPolicy) -> dict[str, Any]:
    """Return the rule by which new files of a copied working directory are results; empty if no file is a result.

    No file is a result if the spec says which files to keep. The same holds for a trainer without files, whose results
    are in its output directory.
    """
    own_files = spec.trainer is not None and spec.workdir is None
    if spec.outputs or own_files:
        return {}
    ignore = [*sorted(DEFAULT_NAMES), *(f"*{suffix}" for suffix in DEFAULT_SUFFIXES)]
    limits = {"max_bytes": policy.results_bytes, "max_files": policy.results_files}
    return {"results": {"ignore": [*ignore, *(spec.workdir.ignore if spec.workdir else ())], **limits}}


def _tracker_env(spec: JobSpec) -> dict[str, str]:
    """Return the environment variable that names the experiment trackers for the trainer."""
    wanted = {name: value for name, value in spec.track.model_dump(mode="json").items() if value}
    return {"ANYGPU_TRACK": json.dumps(wanted)} if wanted and spec.trainer is not None else {}


def _requirements(spec: JobSpec, attempt: AttemptView) -> list[str]:
    wanted = spec.requirements
    if _needs_framework(spec, attempt):
        from anygpu.trainers.registry import requirements_for, requirements_of

        trackers = [each for name in TRACKERS if getattr(spec.track, name) for each in requirements_of(name)]
        return [*requirements_for(str(spec.trainer), spec.config), *trackers]
    return ["-r", wanted] if isinstance(wanted, str) else list(wanted)


def _needs_framework(spec: JobSpec, attempt: AttemptView) -> bool:
    """Return whether the agent has to install the trainer's framework.

    It does not for jobs without a trainer, for jobs that bring their own environment (`requirements`, `python` or
    `image`), and on the server's own machine.
    """
    given = spec.requirements or spec.python or spec.image
    return spec.trainer is not None and not given and attempt.offer.backend != LOCAL


def _dataset(spec: JobSpec, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    dataset = spec.dataset
    if dataset is None:
        return None
    return {"path": dataset.path, "url": dataset.url, "sha256": None, "parts": [dict(part) for part in parts]}


def _time_left_s(view: JobView, attempt: AttemptView, policy: ControlPolicy) -> float | None:
    """Return the seconds of the job's time limit that earlier attempts have not used, at least 1.

    None without a limit.
    """
    limit_s = policy.time_limit_s(view.spec, attempt.offer)
    if limit_s is None:
        return None
    return max(1.0, limit_s - used_time_s(view.attempts[: attempt.number - 1], attempt.launching_at_ms))
