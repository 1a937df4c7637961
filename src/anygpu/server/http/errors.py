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
    """The request cannot be parsed. Send well-formed JSON with the content type application/json."""

    code = "malformed_request"


class MethodNotAllowed(AnygpuError):
    """The path does not support this method. The Allow header lists those it supports."""

    code = "method_not_allowed"


class HostNotAllowed(AnygpuError):
    """The host in the Host header is not allowed. Add it to `server.allowed_hosts`."""

    code = "host_not_allowed"


class OriginNotAllowed(AnygpuError):
    """The origin of the web page is not allowed. Add it to `server.allowed_origins`."""

    code = "origin_not_allowed"


# HTTP status by error code. An error class without an entry has the status of its parent class.
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
    "no_backend_fits": 422,
    "needs_paid_consent": 422,
    "max_cost_too_low": 422,
    "needs_snapshot": 422,
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
    "request_timeout": 408,
    "too_large": 413,
    "no_preview": 415,
    "rate_limited": 429,
    "header_too_large": 431,
    "blob_corrupt": 500,
    "launch_error": 502,
    "meter_differs": 502,
    "no_capacity": 503,
    "backend_unavailable": 503,
    "backend_not_open": 503,
    "lease_lost": 503,
    "store_busy": 503,
    "job_damaged": 503,
    "key_unusable": 503,
    "too_many_connections": 503,
    "server_unreachable": 503,
    "storage_full": 507,
}

_BY_STATUS: dict[int, type[AnygpuError]] = {400: MalformedRequest, 404: NotFound, 405: MethodNotAllowed}


def status_of(error: AnygpuError) -> int:
    """Return the HTTP status for the error's code, or else for the code of its nearest parent class that has one."""
    codes = (parent.__dict__.get("code") for parent in type(error).__mro__)
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
    """Render an error as a problem response."""
    status = status_of(error)
    content = json.dumps(replace_nonfinite(problem_body(error)), ensure_ascii=False, default=str)
    extra = {**_headers_for(status, error), **(headers or {})}
    return Response(content.encode("utf-8", "replace"), status, extra, MEDIA_TYPE)


def error_for_status(status: int) -> AnygpuError:
    """Return the error for a status that the framework chose, such as 404 for an unknown path."""
    error_class = _BY_STATUS.get(status)
    if error_class is not None:
        return error_class()
    return MalformedRequest(HTTPStatus(status).phrase) if status < 500 else Internal()


def error_for_validation(errors: list[dict[str, Any]]) -> InvalidSpec:
    """Convert FastAPI's validation errors for path, query and header parameters to one error."""
    return InvalidSpec(
        [Problem(_dotted_path(each["loc"]), each.get("input"), _message(each)) for each in errors]
    )


def _message(error: Mapping[str, Any]) -> str:
    """Return the message of a validation error. If a pattern did not match, the message includes the value."""
    pattern = (error.get("ctx") or {}).get("pattern")
    return f"{error.get('input')!r} does not match the pattern {pattern}" if pattern else str(error["msg"])


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
