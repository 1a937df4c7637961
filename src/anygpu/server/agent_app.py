"""The agent listener: the HTTP routes of docs/reference/agent-protocol.md, on a separate port for agents only."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from anygpu.api import agent as protocol
from anygpu.api.base import ApiModel
from anygpu.control.agents.tickets import AttemptKey
from anygpu.errors import AnygpuError, Internal, InvalidSpec, Problem, Unauthorized
from anygpu.server.http import blobs
from anygpu.server.http.bodies import parse_body, read_body, read_object
from anygpu.server.http.errors import error_for_status, problem_response
from anygpu.server.http.middleware import limit_body
from anygpu.server.live.hub import ChangeSignal, Hub
from anygpu.server.services import Services
from anygpu.store.report_format import parse_report
from anygpu.store.reports import ReportBatch

MAX_WAIT_S = 30.0
JSON_BYTES = 8 * 1024 * 1024  # enough for a manifest of many files; reports have their own limit

Handler = Callable[[Request, Services], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRoute:
    """A route of the agent listener, with its handler and the models of its bodies.

    Reports are the server's busiest requests. So handlers return plain data, the control package validates bodies, and
    the models only document the protocol; tests compare them with real messages.
    """

    method: str
    path: str
    handler: Handler
    body: type[ApiModel] | None
    response: type[ApiModel]


ROUTES: list[AgentRoute] = []


def route(
    method: str, path: str, *, response: type[ApiModel], body: type[ApiModel] | None = None
) -> Callable[[Handler], Handler]:
    """Declare the decorated function as the handler of a route."""

    def register(handler: Handler) -> Handler:
        ROUTES.append(
            AgentRoute(method=method, path=f"/agent/v1{path}", handler=handler, body=body, response=response)
        )
        return handler

    return register


def build_agent_app(services: Services) -> Starlette:
    routes = [Route(each.path, _Endpoint(each.handler), methods=[each.method]) for each in ROUTES]
    handlers: dict[Any, Any] = {
        HTTPException: _handle_http_exception,
        AnygpuError: _handle_anygpu_error,
        Exception: _handle_unexpected_error,
    }
    app = Starlette(routes=[*routes, *blobs.blob_routes()], exception_handlers=handlers)
    app.state.services = services
    return app


@route("POST", "/claim", body=protocol.ClaimRequest, response=protocol.AttemptAssignment)
async def claim(request: Request, services: Services) -> Any:
    body = parse_body(protocol.ClaimRequest, await read_object(request))
    host = {str(key)[:100]: str(value)[:500] for key, value in list(body.host.items())[:50]}
    return await services.agents.claim(body.ticket, body.claimant, host, body.node)


@route("POST", "/reports", response=protocol.ReportReceipt)
async def report(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    started = perf_counter()
    batch = parse_report(await read_body(request), _number(request, "first"), _number(request, "last"))
    receipt = await services.agents.report(key, batch)
    services.stream_sources.hub.on_report(key.job_id)
    services.metrics.record_report(*_batch_size(batch), perf_counter() - started)
    return {**receipt, "watched": services.stream_sources.hub.is_watched(key.job_id)}


@route("POST", "/heartbeat", response=protocol.ReportReceipt)
async def heartbeat(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    receipt = await services.agents.heartbeat(key)
    return {**receipt, "watched": services.stream_sources.hub.is_watched(key.job_id)}


@route("GET", "/orders", response=protocol.CurrentOrders)
async def orders(request: Request, services: Services) -> Any:
    """Return the current orders (`stop`, `cancel`) for an agent. Wait up to `wait_s` seconds for new ones."""
    key = _authenticate(request, services)
    version, wait_s = _number(request, "after", -1), min(_number(request, "wait_s", 0), MAX_WAIT_S)
    hub, signal = services.stream_sources.hub, services.stream_sources.hub.signal(key.job_id)
    loop = asyncio.get_running_loop()
    until, is_new_request = loop.time() + wait_s, True
    while True:
        events = signal.events
        current = await services.agents.orders(key, is_new_request=is_new_request)
        is_new_request = False
        if current["version"] != version or loop.time() >= until or hub.closing:
            return current
        await _wait_for_change(hub, signal, events, min(until, loop.time() + _poll_interval_s(services)))


@route("POST", "/ready", body=protocol.NodeReadiness, response=protocol.StartSignal)
async def ready(request: Request, services: Services) -> Any:
    """Record that a node is prepared. Wait up to `wait_s` seconds until all nodes of the attempt are."""
    key = _authenticate(request, services)
    body, wait_s = await read_object(request), min(_number(request, "wait_s", 0), MAX_WAIT_S)
    hub, signal = services.stream_sources.hub, services.stream_sources.hub.signal(key.job_id)
    loop = asyncio.get_running_loop()
    until, is_new_request = loop.time() + wait_s, True
    while True:
        events = signal.events
        answer = await services.agents.ready(key, body, is_new_request=is_new_request)
        is_new_request = False
        if answer["start"] or answer["orders"] or loop.time() >= until or hub.closing:
            return answer
        await _wait_for_change(hub, signal, events, min(until, loop.time() + _poll_interval_s(services)))


@route("POST", "/leave", body=protocol.NodeDeparture, response=protocol.Acknowledgement)
async def leave(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    return await services.agents.leave(key, await read_object(request))


async def _wait_for_change(hub: Hub, signal: ChangeSignal, events: int, until: float) -> None:
    loop = asyncio.get_running_loop()
    while signal.events == events and loop.time() < until and not hub.closing:
        if not await signal.wait(signal.counters, max(0.0, until - loop.time())):
            return


def _poll_interval_s(services: Services) -> float:
    """Return the longest wait between two checks for new orders, in seconds.

    Orders that another server process writes send no signal to this process, so they are found by polling.
    """
    poll_s = services.stream_sources.poll_s
    return MAX_WAIT_S if poll_s is None else 2 * poll_s


@route("POST", "/checkpoints", body=protocol.CheckpointUpload, response=protocol.UploadPlan)
async def begin_checkpoint(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    return await services.agents.begin_checkpoint(key, await read_object(request))


@route("POST", "/checkpoints/{id}/commit", response=protocol.Acknowledgement)
async def commit_checkpoint(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    return await services.agents.commit_checkpoint(key, request.path_params["id"])


@route("POST", "/artifacts", body=protocol.ArtifactUpload, response=protocol.UploadPlan)
async def begin_artifact(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    return await services.agents.begin_artifact(key, await read_object(request))


@route("POST", "/artifacts/{id}/commit", response=protocol.Acknowledgement)
async def commit_artifact(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    return await services.agents.commit_artifact(key, request.path_params["id"])


@route("POST", "/end", body=protocol.EndReport, response=protocol.Acknowledgement)
async def end(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    acknowledgement = await services.agents.end(key, await read_object(request))
    services.stream_sources.hub.on_report(key.job_id)
    return acknowledgement


class _Endpoint:
    """A handler as an ASGI application. Passes the services to the handler, and returns its result as JSON."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services: Services = scope["app"].state.services
        limit = services.limits.report_bytes if self._handler is report else JSON_BYTES
        result = await self._handler(Request(scope, limit_body(receive, limit)), services)
        body = json.dumps(result, default=_as_dict).encode()
        await Response(body, media_type="application/json")(scope, receive, send)


def _authenticate(request: Request, services: Services) -> AttemptKey:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized(
            "The request has no bearer token for this attempt. Send the token from the answer to the claim "
            "request."
        )
    return services.agents.authenticate(token.strip())


def _number(request: Request, name: str, default: int | None = None) -> int:
    text = request.query_params.get(name, "" if default is None else str(default))
    try:
        value = int(float(text)) if name == "wait_s" else int(text)
    except (ValueError, OverflowError):
        raise InvalidSpec(
            [Problem(name, text[:50], "is not a whole number; send one such as 0", source="query")]
        ) from None
    if not -1 <= value < 2**53:
        raise InvalidSpec(
            [
                Problem(
                    name,
                    text[:50],
                    "is out of range; send a whole number from -1 to 2^53 - 1",
                    source="query",
                )
            ]
        )
    return value


def _batch_size(batch: ReportBatch) -> tuple[int, int]:
    """Return the number of metric points and the number of log bytes in a batch of reports."""
    return sum(len(points) for _, points in batch.points), sum(len(data) for _, data in batch.logs)


def _as_dict(value: Any) -> Any:
    return asdict(value)


async def _handle_anygpu_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnygpuError)
    return problem_response(error)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem_response(error_for_status(error.status_code), error.headers)


async def _handle_unexpected_error(request: Request, error: Exception) -> Response:
    return problem_response(Internal())
