"""Parts of the OpenAPI document: examples, error responses and the schema of a job spec."""

from typing import Any

Documented = dict[int | str, dict[str, Any]]

PROBLEM_EXAMPLE = {
    "type": "about:blank",
    "title": "Not found",
    "status": 404,
    "code": "not_found",
    "detail": "there is no job 'resnet'",
    "hint": "`anygpu ls` shows the jobs of this project.",
    "retryable": False,
}
_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "retryable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "retryable": {"type": "boolean"},
        "problems": {"type": "array", "items": {"type": "object"}},
    },
}
MODEL_AND_CONFIG = {
    "type": "object",
    "required": ["model_name"],
    "properties": {"model_name": {"type": "string"}, "config": {"type": "object"}},
    "example": {"model_name": "yolo", "config": {"epochs": 10, "executor": "local"}},
}
PROBLEMS: Documented = {
    "default": {
        "description": "A problem (RFC 9457). `code` is stable, `hint` says what to do.",
        "content": {"application/problem+json": {"schema": _PROBLEM_SCHEMA, "example": PROBLEM_EXAMPLE}},
    }
}


def answers(
    description: str, example: Any, *, status: int = 200, also: dict[int, str] | None = None
) -> Documented:
    """The JSON answer of a route; `also` are further statuses with the same shape."""
    content = {"application/json": {"schema": _shape(example), "example": example}}
    every = {status: description, **(also or {})}
    return {
        **{code: {"description": text, "content": content} for code, text in every.items()},
        **PROBLEMS,
    }


def gives(description: str, media_type: str, example: str, *, status: int = 200) -> Documented:
    """An answer that is not JSON."""
    content = {media_type: {"schema": {"type": "string"}, "example": example}}
    return {status: {"description": description, "content": content}, **PROBLEMS}


def nothing(description: str) -> Documented:
    return {204: {"description": description}, **PROBLEMS}


def takes(example: Any, *, required: bool = True, schema: Any = None) -> dict[str, Any]:
    """The JSON body of a route. Its own reader checks it, and names every problem at its place."""
    content = {"schema": schema or {"type": "object"}, "example": example}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


def takes_bytes() -> dict[str, Any]:
    content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"requestBody": {"required": True, "content": content}}


def fields(**kinds: str) -> dict[str, Any]:
    """The schema of a small body: no other fields."""
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _shape(example: Any) -> dict[str, Any]:
    if isinstance(example, dict):
        return {"type": "object", "required": sorted(example)}
    return {"type": "array"} if isinstance(example, list) else {}


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the schema of a job and the way to show a token."""
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(_spec_schemas())
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    return document


def _spec_schemas() -> dict[str, Any]:
    from anygpu.spec.schema import json_schema

    spec = json_schema(ref_template="#/components/schemas/{model}")
    parts = spec.pop("$defs", {})
    spec.pop("$schema", None)
    return {**parts, "JobSpec": spec, "ModelAndConfig": MODEL_AND_CONFIG}


JOB_ID = "0198f3c2-7a10-7c3e-9d2b-5b1f6f0c1a2e"
ACCEPTED: dict[str, Any] = {
    "id": JOB_ID,
    "job_id": JOB_ID,
    "execution_id": None,
    "status": "queued",
    "phase": "planning",
    "position": 1,
    "created": True,
}
SPEC = {"script": "train.py", "args": ["--epochs", "3"], "name": "digits", "tags": ["demo"]}
SUMMARY: dict[str, Any] = {
    "id": JOB_ID,
    "name": "digits",
    "status": "running",
    "phase": "training",
    "reason": "",
    "submitted_at": "2026-01-05T10:00:00.000Z",
    "updated_at": "2026-01-05T10:00:01.120Z",
    "ended_at": None,
    "person": "me",
    "tags": ["demo"],
    "backend": "local",
    "execution_id": "anygpu-0198f3c27a107c3e9d2b5b1f6f0c1a2e-1",
    "progress": {"fraction": 0.3, "step": 120, "steps": 400, "epoch": 3, "epochs": 10, "message": ""},
    "attempt": 1,
    "checkpoint": {"step": 100, "saved_at": "2026-01-05T10:00:30.000Z"},
    "artifacts": 0,
    "work_lost_s": 0.0,
    "cost_microusd": 0,
    "retries_used": 0,
    "resumed_from": None,
    "failure": None,
    "queue_position": None,
}
PREDICTION = {
    "wall_s": 8040.0,
    "wall_low_s": 5200.0,
    "wall_high_s": 12_100.0,
    "cost_microusd": 1_340_000,
    "cost_low_microusd": 870_000,
    "cost_high_microusd": 2_020_000,
    "basis": "history",
    "confidence": "medium",
}
BETTER = {
    "place": {
        "backend": "lambda",
        "name": "gpu_1x_a10",
        "region": "us-east-1",
        "zone": "",
        "gpu_kind": "A10",
        "gpu_count": 1,
        "interruptible": False,
        "price_microusd_per_hour": 750_000,
    },
    "saves_microusd": 3_100_000,
    "saves_low_microusd": 1_900_000,
    "sooner_s": -1200.0,
    "sooner_low_s": -4100.0,
    "by_itself": False,
}
JOB = {
    **SUMMARY,
    "metrics": {"loss": 0.25},
    "attempts": [],
    "telemetry": {},
    "predicted": None,
    "prediction": PREDICTION,
    "better": BETTER,
    "spec": SPEC,
}
EVENT = {
    "position": 17,
    "job_id": JOB_ID,
    "at": "2026-01-05T10:00:01.120Z",
    "type": "TrainingStarted",
    "version": 1,
    "data": {"attempt": 1},
}
SERIES = {
    "name": "loss",
    "count": 3,
    "min": 0.2,
    "max": 0.9,
    "last": 0.2,
    "last_step": 3,
    "points": [[1, 1767607201.1, 0.9], [2, 1767607202.1, 0.4], [3, 1767607203.1, 0.2]],
}
FILE = {"path": "ckpt/last.pt", "size": 1024, "sha256": "9f86…", "urls": ["http://127.0.0.1:7791/blobs/…"]}
CHECKPOINT = {
    "id": "c1",
    "attempt": 1,
    "step": 100,
    "size": 1024,
    "saved_at": "2026-01-05T10:00:30.000Z",
    "files": [FILE],
}
ARTIFACT = {"name": "model.pt", "attempt": 1, "size": 1024, "sha256": "9f86…", "urls": FILE["urls"]}
PLACE = {
    "backend": "cloud",
    "name": "gpu_1x_rtx4090",
    "region": "eu-north",
    "zone": "",
    "gpu": "RTX4090",
    "gpus": 1,
    "interruptible": False,
}
OFFER = {
    **PLACE,
    "configured": True,
    "score": 1_340_000.0,
    "price_microusd_per_hour": 600_000,
    "seconds": {"expected": 8040.0, "low": 5200.0, "high": 12_100.0},
    "cost_microusd": {"expected": 1_340_000, "low": 870_000, "high": 2_020_000},
    "out_of_pocket_microusd": {"expected": 0, "low": 0, "high": 20_000},
    "credit_microusd": 2_000_000,
    "runs": 1,
    "max_run_s": None,
    "setup_s": 150,
    "transfer_s": 0,
    "interruptions_s": 0,
    "checkpoint_every_s": None,
    "confidence": "medium",
    "basis": "history",
    "free": None,
    "wait": "",
    "pros": ["$0.00 (to $0.02) from your pocket, after $2.00 of credit", "never interrupted"],
    "cons": [],
}
PLAN = {
    "strategy": "cheapest",
    "choice": OFFER,
    "short": [OFFER],
    "offers": [OFFER],
    "more_offers": 0,
    "rejected": [
        {"reason": "has 16 GiB a GPU, the job needs 24", "offers": 41, "examples": [{**PLACE, "gpu": "V100"}]}
    ],
    "workload": [
        {"what": "model", "value": "resnet50", "sure": "high", "where": "train.py:14", "because": ""}
    ],
    "lints": [],
}
