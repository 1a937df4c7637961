"""Build the API: one FastAPI application with every route, behind the access checks."""

from importlib import import_module
from typing import Any

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp

from anygpu.errors import AnygpuError, Internal
from anygpu.server.http import blobs, web_app
from anygpu.server.http.deferred import DeferredRoutes
from anygpu.server.http.errors import error_for_status, error_for_validation, problem_response
from anygpu.server.http.middleware import AccessMiddleware, AccessRules, RateLimit
from anygpu.server.routes import health
from anygpu.server.routes.training import jobs, live, streams
from anygpu.server.services import Services

METHOD_NOT_ALLOWED = 405
FIRST_ROUTERS = (jobs, streams, live, health)  # of the first requests: to submit and to watch a job
OTHER_ROUTERS = (
    "training.reports",
    "training.series",
    "training.downloads",
    "training.logs",
    "summary",
    "planning.uploads",
    "planning.snapshots",
    "queue",
    "planning.plan",
    "costs",
    "planning.specs",
    "planning.trainers",
    "machines",
    "backends",
    "access.secrets",
    "access.tokens",
    "access.login",
    "training.compat",
)


class Api(FastAPI):
    """A FastAPI application. Its OpenAPI document, with the models of `anygpu.api`, is built when first requested."""

    def load_routes(self) -> None:
        """Build the routes that are left out at the start of the server. A request that needs one builds them too."""
        for route in [*self.router.routes]:
            if isinstance(route, DeferredRoutes):
                route.load()

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.load_routes()
            from anygpu.server.http.openapi import complete

            self.openapi_schema = complete(super().openapi(), self.routes)
        return self.openapi_schema


def build_api(services: Services) -> Api:
    """Build the application without the access checks. Most of its routes are built later, see `Api.load_routes`."""
    app = _build_application(services.version)
    app.state.services = services
    return app


def describe_api(version: str) -> Api:
    """Return the application with every route and no services: enough for its OpenAPI document."""
    app = _build_application(version)
    app.load_routes()
    return app


def _build_application(version: str) -> Api:
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
    routes = app.router.routes
    for module in FIRST_ROUTERS:
        routes.extend(module.router.routes)  # `include_router` would build each route again
    routes.append(DeferredRoutes(routes, _build_other_routes))
    routes.extend([*blobs.blob_routes(), *web_app.web_routes()])
    return app


def _build_other_routes() -> list[BaseRoute]:
    modules = [import_module(f"anygpu.server.routes.{name}") for name in OTHER_ROUTERS]
    return [route for module in modules for route in module.router.routes]


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
