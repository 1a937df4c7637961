"""The agent listener: a port of its own, and only tokens of attempts. Reports are the hot path and stay lean."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from anygpu.control.tickets import AttemptKey
from anygpu.errors import AnygpuError, Internal, InvalidSpec, Problem, Unauthorized
from anygpu.server.http import blobs
from anygpu.server.http.blobs import with_absolute_urls
from anygpu.server.http.bodies import read_object, text_field
from anygpu.server.http.errors import MalformedRequest, error_for_status, problem_response
from anygpu.server.http.middleware import limit_body
from anygpu.server.live.hub import ChangeSignal, Hub
from anygpu.server.services import Services
from anygpu.store.evidence import Batch
from anygpu.store.frames import parse

MAX_WAIT_S = 30.0
JSON_BYTES = 8 * 1024 * 1024  # a manifest of many files; a report is limited by its setting

Handler = Callable[[Request, Services], Awaitable[Any]]

ROUTES = (
    ("POST", "/agent/v1/claim"),
    ("POST", "/agent/v1/reports"),
    ("POST", "/agent/v1/heartbeat"),
    ("GET", "/agent/v1/orders"),
    ("POST", "/agent/v1/checkpoints"),
    ("POST", "/agent/v1/checkpoints/{id}/commit"),
    ("POST", "/agent/v1/artifacts"),
    ("POST", "/agent/v1/artifacts/{id}/commit"),
    ("POST", "/agent/v1/end"),
)


def build_agent_app(services: Services) -> Starlette:
    """Routes of docs/agent-protocol.md."""
    routes = [
        Route(path, _Endpoint(handler), methods=[method])
        for (method, path), handler in zip(ROUTES, _HANDLERS, strict=True)
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _handle_http_exception,
        AnygpuError: _handle_anygpu_error,
        Exception: _handle_unexpected_error,
    }
    app = Starlette(routes=[*routes, *blobs.blob_routes()], exception_handlers=handlers)
    app.state.services = services
    return app


async def _claim(request: Request, services: Services) -> Any:
    body = await read_object(request)
    host = body.get("host")
    if not isinstance(host, dict):
        raise InvalidSpec([Problem("host", None, "an object is needed", source="body")])
    told = {str(key)[:100]: str(value)[:500] for key, value in list(host.items())[:50]}
    ticket, claimant = text_field(body, "ticket", most=1000), text_field(body, "claimant", most=128)
    return with_absolute_urls(await services.agents.claim(ticket, claimant, told), services.agent_url)


async def _reports(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    started = perf_counter()
    batch = parse(await _read_body(request), _number(request, "first"), _number(request, "last"))
    answer = await services.agents.report(key, batch)
    services.stream_sources.hub.on_report(key.job_id)
    services.metrics.record_report(*_batch_size(batch), perf_counter() - started)
    return answer


async def _heartbeat(request: Request, services: Services) -> Any:
    return await services.agents.heartbeat(_authenticate(request, services))


async def _orders(request: Request, services: Services) -> Any:
    """Hold until the orders differ from what the agent knows, or `wait_s` has passed."""
    key = _authenticate(request, services)
    known, wait_s = _number(request, "after", -1), min(_number(request, "wait_s", 0), MAX_WAIT_S)
    hub, signal = services.stream_sources.hub, services.stream_sources.hub.signal(key.job_id)
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        events = signal.events
        answer = await services.agents.orders(key)
        if answer["version"] != known or loop.time() >= until or hub.closing:
            return answer
        await _wait_for_change(hub, signal, events, min(until, loop.time() + _poll_interval_s(services)))


async def _wait_for_change(hub: Hub, signal: ChangeSignal, events: int, until: float) -> None:
    loop = asyncio.get_running_loop()
    while signal.events == events and loop.time() < until and not hub.closing:
        if not await signal.wait(signal.counters, max(0.0, until - loop.time())):
            return


def _poll_interval_s(services: Services) -> float:
    """Where other processes write too, a change may come without a signal."""
    poll_s = services.stream_sources.poll_s
    return MAX_WAIT_S if poll_s is None else 2 * poll_s


async def _begin_checkpoint(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    begun = await services.agents.begin_checkpoint(key, await read_object(request))
    return with_absolute_urls(begun, services.agent_url)


async def _commit_checkpoint(request: Request, services: Services) -> Any:
    return await services.agents.commit_checkpoint(
        _authenticate(request, services), request.path_params["id"]
    )


async def _begin_artifact(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    begun = await services.agents.begin_artifact(key, await read_object(request))
    return with_absolute_urls(begun, services.agent_url)


async def _commit_artifact(request: Request, services: Services) -> Any:
    return await services.agents.commit_artifact(_authenticate(request, services), request.path_params["id"])


async def _end(request: Request, services: Services) -> Any:
    key = _authenticate(request, services)
    answer = await services.agents.end(key, await read_object(request))
    services.stream_sources.hub.on_report(key.job_id)
    return answer


class _Endpoint:
    """A handler as ASGI: services in, JSON out, without a framework between."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services: Services = scope["app"].state.services
        reports = self._handler is _reports
        limit = services.limits.report_bytes if reports else JSON_BYTES
        answer = await self._handler(Request(scope, limit_body(receive, limit)), services)
        body = json.dumps(answer, default=_plain).encode()
        await Response(body, media_type="application/json")(scope, receive, send)


def _authenticate(request: Request, services: Services) -> AttemptKey:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("an agent shows the token of its attempt")
    return services.agents.authenticate(token.strip())


async def _read_body(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect:
        raise MalformedRequest("the connection ended before the body") from None


def _number(request: Request, name: str, default: int | None = None) -> int:
    text = request.query_params.get(name, "" if default is None else str(default))
    try:
        value = int(float(text)) if name == "wait_s" else int(text)
    except (ValueError, OverflowError):
        raise InvalidSpec([Problem(name, text[:50], "a whole number is needed", source="query")]) from None
    if not -1 <= value < 2**53:
        raise InvalidSpec([Problem(name, text[:50], "out of range", source="query")])
    return value


def _batch_size(batch: Batch) -> tuple[int, int]:
    return sum(len(points) for _, points in batch.points), sum(len(data) for _, data in batch.logs)


def _plain(value: Any) -> Any:
    from dataclasses import asdict

    return asdict(value)


async def _handle_anygpu_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnygpuError)
    return problem_response(error)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem_response(error_for_status(error.status_code), error.headers)


async def _handle_unexpected_error(request: Request, error: Exception) -> Response:
    return problem_response(Internal())


_HANDLERS: tuple[Handler, ...] = (
    _claim,
    _reports,
    _heartbeat,
    _orders,
    _begin_checkpoint,
    _commit_checkpoint,
    _begin_artifact,
    _commit_artifact,
    _end,
)
