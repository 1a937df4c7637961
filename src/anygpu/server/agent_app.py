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
from anygpu.server import blob_routes
from anygpu.server.bodies import read_object, text_field
from anygpu.server.gate import limited
from anygpu.server.hub import Hub, Signal
from anygpu.server.links import with_absolute_urls
from anygpu.server.problems import MalformedRequest, from_status, problem
from anygpu.server.services import Services
from anygpu.store.evidence import Batch
from anygpu.store.frames import parse

LONGEST_WAIT_S = 30.0
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


def agent_app(services: Services) -> Starlette:
    """Routes of docs/agent-protocol.md."""
    routes = [
        Route(path, _Endpoint(handler), methods=[method])
        for (method, path), handler in zip(ROUTES, _HANDLERS, strict=True)
    ]
    handlers: dict[Any, Any] = {HTTPException: _framework_refused, AnygpuError: _refused, Exception: _failed}
    app = Starlette(routes=[*routes, *blob_routes.routes()], exception_handlers=handlers)
    app.state.services = services
    return app


async def _claim(request: Request, services: Services) -> Any:
    body = await read_object(request)
    host = body.get("host")
    if not isinstance(host, dict):
        raise InvalidSpec([Problem("host", None, "an object is needed", source="body")])
    told = {str(key)[:100]: str(value)[:500] for key, value in list(host.items())[:50]}
    ticket, claimant = text_field(body, "ticket", most=1000), text_field(body, "claimant", most=128)
    return with_absolute_urls(await services.desk.claim(ticket, claimant, told), services.agent_url)


async def _reports(request: Request, services: Services) -> Any:
    key = _key(request, services)
    started = perf_counter()
    batch = parse(await _whole_body(request), _number(request, "first"), _number(request, "last"))
    answer = await services.desk.report(key, batch)
    services.sources.hub.touched(key.job_id)
    services.gauges.reported(*_amount(batch), perf_counter() - started)
    return answer


async def _heartbeat(request: Request, services: Services) -> Any:
    return await services.desk.heartbeat(_key(request, services))


async def _orders(request: Request, services: Services) -> Any:
    """Hold until the orders differ from what the agent knows, or `wait_s` has passed."""
    key = _key(request, services)
    known, wait_s = _number(request, "after", -1), min(_number(request, "wait_s", 0), LONGEST_WAIT_S)
    hub, signal = services.sources.hub, services.sources.hub.signal(key.job_id)
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        events = signal.events
        answer = await services.desk.orders(key)
        if answer["version"] != known or loop.time() >= until or hub.closing:
            return answer
        await _until_changed(hub, signal, events, min(until, loop.time() + _look_again_s(services)))


async def _until_changed(hub: Hub, signal: Signal, events: int, until: float) -> None:
    loop = asyncio.get_running_loop()
    while signal.events == events and loop.time() < until and not hub.closing:
        if not await signal.wait(signal.seen, max(0.0, until - loop.time())):
            return


def _look_again_s(services: Services) -> float:
    """Where other processes write too, a change may come without a signal."""
    poll_s = services.sources.poll_s
    return LONGEST_WAIT_S if poll_s is None else 2 * poll_s


async def _begin_checkpoint(request: Request, services: Services) -> Any:
    key = _key(request, services)
    begun = await services.desk.begin_checkpoint(key, await read_object(request))
    return with_absolute_urls(begun, services.agent_url)


async def _commit_checkpoint(request: Request, services: Services) -> Any:
    return await services.desk.commit_checkpoint(_key(request, services), request.path_params["id"])


async def _begin_artifact(request: Request, services: Services) -> Any:
    key = _key(request, services)
    begun = await services.desk.begin_artifact(key, await read_object(request))
    return with_absolute_urls(begun, services.agent_url)


async def _commit_artifact(request: Request, services: Services) -> Any:
    return await services.desk.commit_artifact(_key(request, services), request.path_params["id"])


async def _end(request: Request, services: Services) -> Any:
    key = _key(request, services)
    answer = await services.desk.end(key, await read_object(request))
    services.sources.hub.touched(key.job_id)
    return answer


class _Endpoint:
    """A handler as ASGI: services in, JSON out, without a framework between."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        services: Services = scope["app"].state.services
        reports = self._handler is _reports
        limit = services.limits.report_bytes if reports else JSON_BYTES
        answer = await self._handler(Request(scope, limited(receive, limit)), services)
        body = json.dumps(answer, default=_plain).encode()
        await Response(body, media_type="application/json")(scope, receive, send)


def _key(request: Request, services: Services) -> AttemptKey:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("an agent shows the token of its attempt")
    return services.desk.authenticate(token.strip())


async def _whole_body(request: Request) -> bytes:
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


def _amount(batch: Batch) -> tuple[int, int]:
    return sum(len(points) for _, points in batch.points), sum(len(data) for _, data in batch.logs)


def _plain(value: Any) -> Any:
    from dataclasses import asdict

    return asdict(value)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnygpuError)
    return problem(error)


async def _framework_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(from_status(error.status_code), error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return problem(Internal())


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
