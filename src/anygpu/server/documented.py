"""Pieces of the OpenAPI document: an example for every answer and body, problems for everything else."""

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
