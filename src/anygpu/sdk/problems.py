"""From an HTTP answer back to the error it was: the code names the class."""

import json
from collections.abc import Mapping
from typing import Any

from anygpu import errors
from anygpu.errors import AnygpuError, InvalidSpec, Problem

_BY_STATUS = {
    400: errors.InvalidSpec,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.TooLarge,
    422: errors.InvalidSpec,
    429: errors.RateLimited,
    503: errors.StoreBusy,
    507: errors.StorageFull,
}
_KNOWN = {"type", "title", "status", "code", "detail", "hint", "retryable", "problems"}


def error_from(status: int, content_type: str, body: bytes) -> AnygpuError:
    """The error a server's answer stands for; one it did not name is told by its status."""
    document = _document(content_type, body)
    code = document.get("code")
    kind = next((kind for kind in errors.every_error() if kind.code == code), None)
    if kind is None:
        kind = _BY_STATUS.get(status, errors.Internal)
    if issubclass(kind, InvalidSpec) and document.get("problems"):
        return kind([_problem(item) for item in document["problems"]])
    return _build(kind, status, document)


def _build(kind: type[AnygpuError], status: int, document: Mapping[str, Any]) -> AnygpuError:
    detail = str(document.get("detail") or document.get("title") or "")
    more = {key: value for key, value in document.items() if key not in _KNOWN}
    if issubclass(kind, InvalidSpec):
        return kind([Problem(place="", value=None, message=detail or f"the server answered {status}")])
    if not detail:
        return kind(**more)
    return kind(detail, hint=str(document.get("hint") or ""), **more)


def _problem(item: Mapping[str, Any]) -> Problem:
    # Whoever called us wrote neither a body nor a path.
    return Problem(
        place=str(item.get("place", "")).removeprefix("path."),
        value=item.get("value"),
        message=str(item.get("message", "")),
        suggestion=str(item.get("suggestion") or ""),
        source=str(item.get("source") or "").removeprefix("body"),
        line=item.get("line"),
    )


def _document(content_type: str, body: bytes) -> dict[str, Any]:
    if "json" not in content_type:
        return {}
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
