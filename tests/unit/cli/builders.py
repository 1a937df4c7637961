"""Jobs and command lines for the CLI's tests."""

from typing import Any

from anygpu.cli.jobs.job_file import (
    build_job_request,
)
from anygpu.cli.jobs.run import IS_COMMAND, run_command


def job(**parts: Any) -> dict[str, Any]:
    made = {
        "id": "01993f0a-1c2d-7000-8000-000000000001",
        "name": "digits",
        "status": "running",
        "phase": "training",
        "submitted_at": "2030-01-01T00:00:00.000Z",
        "ended_at": "2030-01-01T00:01:30.000Z",
        "backend": "local",
        "progress": {"fraction": 0.43, "epoch": 3, "epochs": 7},
        "metrics": {"loss": 0.123456},
        "attempts": [],
    }
    return {**made, **parts}


def parse_run(*words: str) -> dict[str, Any]:
    context = run_command.make_context("run", list(words))
    wanted = {
        key: value
        for key, value in context.params.items()
        if key not in ("target", "as_json", "context_name")
    }
    return build_job_request(
        context.params["target"], wanted, is_command=bool(context.meta.get(IS_COMMAND))
    ).document.data
