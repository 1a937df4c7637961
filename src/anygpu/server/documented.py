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


def gives(description: str, media_type: str, *, status: int = 200) -> Documented:
    """An answer that is not JSON."""
    schema = {"type": "string"}
    return {status: {"description": description, "content": {media_type: {"schema": schema}}}, **PROBLEMS}


def nothing(description: str) -> Documented:
    return {204: {"description": description}, **PROBLEMS}


def takes(example: Any, *, required: bool = True, media_type: str = "application/json") -> dict[str, Any]:
    """The body of a route. Its own reader checks it, and names every problem at its place."""
    schema = (
        {"type": "object"} if media_type == "application/json" else {"type": "string", "format": "binary"}
    )
    content: dict[str, Any] = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {"requestBody": {"required": required, "content": {media_type: content}}}


def _shape(example: Any) -> dict[str, Any]:
    if isinstance(example, dict):
        return {"type": "object", "required": sorted(example)}
    return {"type": "array"} if isinstance(example, list) else {}
