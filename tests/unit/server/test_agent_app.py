"""Long polls of agents, on stores in memory and in virtual time."""

import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.types import Message
from tests.unit.control.agents.test_gang import READY, Gang

from anygpu.server.agent_app import orders, ready
from anygpu.server.live.hub import Hub
from anygpu.server.live.stream import StreamSources
from anygpu.server.services import Services
from anygpu.store.reports import report_number
from anygpu.testing.simulation.virtual_time import VirtualLoop

WAIT_S = 20


def request(query: str, token: str, body: Any = None) -> Request:
    async def receive() -> Message:
        return {"type": "http.request", "body": json.dumps(body).encode()}

    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": query.encode(),
        "headers": headers,
    }
    return Request(scope, receive)


@pytest.mark.parametrize(
    ("handler", "query", "body"),
    [(orders, f"after=0&wait_s={WAIT_S}", None), (ready, f"wait_s={WAIT_S}", READY)],
)
def test_a_long_poll_is_one_heartbeat(
    handler: Callable[[Request, Services], Awaitable[Any]], query: str, body: Any
) -> None:
    loop = VirtualLoop()

    async def poll() -> tuple[float, int, int]:
        server = await Gang().submit_nodes(2)
        token = (await server.claim_node(1))["token"]
        sources = StreamSources(
            journal=server.journal, reports=server.evidence, hub=Hub(), poll_s=1.0
        )  # other servers write to the same database
        services = cast(Services, SimpleNamespace(agents=server.desk, stream_sources=sources))
        number = report_number(1, 1)
        before = (await server.evidence.state("job", number)).beats
        began = loop.time()
        await handler(request(query, token, body), services)
        return loop.time() - began, before, (await server.evidence.state("job", number)).beats

    seconds, before, after = loop.run_until_complete(poll())
    assert seconds >= WAIT_S
    assert after == before + 1
