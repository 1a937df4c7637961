"""The API: FastAPI behind the gate. The OpenAPI document is made when somebody asks for it."""

from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp

from anygpu.errors import AnygpuError, Internal
from anygpu.server import blob_routes
from anygpu.server.documented import completed
from anygpu.server.gate import Gate, GateRules
from anygpu.server.problems import from_status, from_validation, problem
from anygpu.server.rates import RateLimit
from anygpu.server.routes import (
    accuracy,
    backends,
    doors,
    evidence,
    health,
    login,
    machines,
    plan,
    queue,
    secrets,
    streams,
    tokens,
    training,
    uploads,
)
from anygpu.server.services import Services

ROUTERS = (
    training,
    evidence,
    streams,
    uploads,
    queue,
    plan,
    accuracy,
    machines,
    backends,
    secrets,
    tokens,
    login,
    health,
    doors,
)


class Api(FastAPI):
    """FastAPI with the schema of a job in its document."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = completed(super().openapi())
        return self.openapi_schema


def api(services: Services) -> Api:
    """Every route, without the gate."""
    app = Api(
        title="anygpu",
        summary="Train on any GPU.",
        version=services.version,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        exception_handlers=_HANDLERS,
    )
    for each in ROUTERS:
        app.router.routes.extend(each.router.routes)  # `include_router` would build each route again
    app.router.routes.extend(blob_routes.routes())
    app.state.services = services
    return app


def gated(app: ASGIApp, services: Services, rules: GateRules) -> Gate:
    limits, now = services.limits, services.clock.monotonic
    requests = RateLimit(limits.requests_per_s, limits.requests_burst, now)
    failures = RateLimit(limits.failed_logins_per_min / 60, max(1.0, limits.failed_logins_per_min), now)
    return Gate(app, rules, services.access, requests, failures)


async def _refused(connection: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, AnygpuError)
    return _answer(connection, error)


async def _invalid(connection: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError | WebSocketRequestValidationError)
    return _answer(connection, from_validation(list(error.errors())))


async def _framework_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(from_status(error.status_code), error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return problem(Internal())


def _answer(connection: HTTPConnection, error: AnygpuError) -> Response:
    if isinstance(connection, WebSocket):
        raise error  # the gate refuses the handshake with the same problem
    return problem(error)


_HANDLERS: dict[Any, Any] = {
    AnygpuError: _refused,
    RequestValidationError: _invalid,
    WebSocketRequestValidationError: _invalid,
    HTTPException: _framework_refused,
    Exception: _failed,
}
