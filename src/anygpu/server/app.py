"""Build the API: one FastAPI application with every route, behind the access checks."""

from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from anygpu.errors import AnygpuError, Internal
from anygpu.server.http import blobs, web_app
from anygpu.server.http.errors import error_for_status, error_for_validation, problem_response
from anygpu.server.http.middleware import AccessMiddleware, AccessRules, RateLimit
from anygpu.server.routes import backends, costs, health, machines, queue, summary
from anygpu.server.routes.access import login, secrets, tokens
from anygpu.server.routes.planning import plan, snapshots, specs, trainers, uploads
from anygpu.server.routes.training import compat, downloads, jobs, live, logs, reports, series, streams
from anygpu.server.services import Services

METHOD_NOT_ALLOWED = 405
ROUTERS = (
    jobs,
    reports,
    series,
    downloads,
    logs,
    streams,
    live,
    summary,
    uploads,
    snapshots,
    queue,
    plan,
    costs,
    specs,
    trainers,
    machines,
    backends,
    secrets,
    tokens,
    login,
    health,
    compat,
)


class Api(FastAPI):
    """A FastAPI application. Its OpenAPI document, with the models of `anygpu.api`, is built when first requested."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            from anygpu.server.http.openapi import complete

            self.openapi_schema = complete(super().openapi(), self.routes)
        return self.openapi_schema


def build_api(services: Services) -> Api:
    """Build the application with every route, without the access checks."""
    app = describe_api(services.version)
    app.state.services = services
    return app


def describe_api(version: str) -> Api:
    """Return the application with every route and no services: enough for its OpenAPI document."""
    app = Api(
        title="anygpu",
        summary="Train on any GPU.",
        version=version,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # these pages load scripts from other servers
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
        exception_handlers=_HANDLERS,
    )
    app.router.routes.append(web_app.start_route())
    for module in ROUTERS:
        app.router.routes.extend(module.router.routes)  # `include_router` would build each route again
    app.router.routes.extend([*blobs.blob_routes(), *web_app.web_routes()])
    return app


def with_access_checks(app: ASGIApp, services: Services, rules: AccessRules) -> AccessMiddleware:
    limits, now = services.limits, services.clock.monotonic
    request_limit = RateLimit(limits.requests_per_s, limits.requests_burst, now)
    failed_logins = limits.failed_logins_per_min
    failure_limit = RateLimit(failed_logins / 60, max(1.0, failed_logins), now)
    return AccessMiddleware(app, rules, services.authenticator, request_limit, failure_limit)


async def _handle_anygpu_error(connection: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, AnygpuError)
    return _problem_for(connection, error)


async def _handle_validation_error(connection: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError | WebSocketRequestValidationError)
    return _problem_for(connection, error_for_validation(list(error.errors())))


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = (
        {"Allow": _allowed_methods(request)} if error.status_code == METHOD_NOT_ALLOWED else error.headers
    )
    return problem_response(error_for_status(error.status_code), headers)


def _allowed_methods(request: Request) -> str:
    """Return the methods of all routes with this path. The framework names only those of the first route."""
    matching = [
        route
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    path = min(matching, key=lambda route: len(route.param_convertors)).path  # `/a/b` before `/a/{name}`
    return ", ".join(
        sorted({method for route in matching if route.path == path for method in route.methods or ()})
    )


async def _handle_unexpected_error(request: Request, error: Exception) -> Response:
    return problem_response(Internal())


def _problem_for(connection: HTTPConnection, error: AnygpuError) -> Response:
    if isinstance(connection, WebSocket):
        raise error  # the access middleware answers the handshake with the same problem
    return problem_response(error)


_HANDLERS: dict[Any, Any] = {
    AnygpuError: _handle_anygpu_error,
    RequestValidationError: _handle_validation_error,
    WebSocketRequestValidationError: _handle_validation_error,
    HTTPException: _handle_http_exception,
    Exception: _handle_unexpected_error,
}
