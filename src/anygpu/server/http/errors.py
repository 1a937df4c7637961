"""Translate errors into RFC 9457 problem responses. This module alone maps error codes to HTTP statuses."""

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from anygpu.errors import AnygpuError, Internal, InvalidSpec, NotFound, Problem
from anygpu.server.encoding import replace_nonfinite

MEDIA_TYPE = "application/problem+json"


class MalformedRequest(AnygpuError):
    """The request cannot be read. Send well-formed JSON with the content type application/json."""

    code = "malformed_request"


class MethodNotAllowed(AnygpuError):
    """This address does not answer this method. Look at the methods in the Allow header."""

    code = "method_not_allowed"


class HostNotAllowed(AnygpuError):
    """The Host header names a host this server is not. Add it to `server.allowed_hosts` if it should be."""

    code = "host_not_allowed"


class OriginNotAllowed(AnygpuError):
    """A web page of another origin may not do this. Add it to `server.allowed_origins` if it should."""

    code = "origin_not_allowed"


# By code; a kind without a line has its parent's status.
STATUS: dict[str, int] = {
    "error": 500,
    "internal": 500,
    "invalid_settings": 500,
    "state_in_use": 500,
    "address_in_use": 500,
    "malformed_request": 400,
    "method_not_allowed": 405,
    "host_not_allowed": 421,
    "origin_not_allowed": 403,
    "invalid_spec": 422,
    "bad_trace": 422,
    "invalid_report": 422,
    "unsafe_path": 422,
    "secret_missing": 422,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "blob_missing": 404,
    "conflict": 409,
    "quota_exceeded": 409,
    "kind_unusable": 409,
    "too_large": 413,
    "rate_limited": 429,
    "blob_corrupt": 500,
    "launch_error": 502,
    "meter_differs": 502,
    "no_capacity": 503,
    "backend_unavailable": 503,
    "backend_not_open": 503,
    "lease_lost": 503,
    "store_busy": 503,
    "server_unreachable": 503,
    "storage_full": 507,
}

_BY_STATUS: dict[int, type[AnygpuError]] = {400: MalformedRequest, 404: NotFound, 405: MethodNotAllowed}


def status_of(error: AnygpuError) -> int:
    """The status of the error's own code, or of its nearest parent that has one."""
    codes = (kind.__dict__.get("code") for kind in type(error).__mro__)
    return next(STATUS[code] for code in codes if code in STATUS)


def problem_body(error: AnygpuError) -> dict[str, Any]:
    status = status_of(error)
    details = {name: value for name, value in error.details.items() if not name.startswith("_")}
    return {
        "type": "about:blank",
        "title": error.code.replace("_", " ").capitalize(),
        "status": status,
        "code": error.code,
        "detail": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        **details,
    }


def problem_response(error: AnygpuError, headers: Mapping[str, str] | None = None) -> Response:
    """The answer for an error."""
    status = status_of(error)
    content = json.dumps(replace_nonfinite(problem_body(error)), ensure_ascii=False, default=str)
    extra = {**_headers_for(status, error), **(headers or {})}
    return Response(content.encode("utf-8", "replace"), status, extra, MEDIA_TYPE)


def error_for_status(status: int) -> AnygpuError:
    """What the framework itself refuses (unknown address, wrong method), in our words."""
    kind = _BY_STATUS.get(status)
    if kind is not None:
        return kind()
    return MalformedRequest(HTTPStatus(status).phrase) if status < 500 else Internal()


def error_for_validation(errors: list[dict[str, Any]]) -> InvalidSpec:
    """FastAPI's complaints about parameters, as the problems of a spec."""
    return InvalidSpec(
        [Problem(_dotted_path(each["loc"]), each.get("input"), _message(each)) for each in errors]
    )


def _message(complaint: Mapping[str, Any]) -> str:
    """With the value, where only a pattern would be named."""
    pattern = (complaint.get("ctx") or {}).get("pattern")
    return (
        f"{complaint.get('input')!r} does not have the form {pattern}" if pattern else str(complaint["msg"])
    )


def _dotted_path(location: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in location)


def _headers_for(status: int, error: AnygpuError) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="anygpu"'}
    if status == 413:
        # The rest of the body is not read, so the connection cannot be used again.
        return {"Connection": "close"}
    if status in (429, 503):
        return {"Retry-After": str(math.ceil(error.details.get("retry_after_s", 1)))}
    return {}
