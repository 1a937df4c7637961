"""The HTTP edge of every dialect: routes by prefix, and loses the answers that a fault says are lost."""

import asyncio
from collections.abc import Callable, Mapping

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anygpu.testing.cloud.cloud import CALL, Call, Cloud
from anygpu.testing.cloud.faults import Fault, Kind, Occasion

FULL = "anygpu.full_path"  # in a scope: the path as it was sent, which is what a client has signed


def routed(apps: Mapping[str, ASGIApp]) -> ASGIApp:
    """`/ec2/…` goes to the application named ec2, which sees `/…`; a bare `/ec2` is its `/`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        name, _, rest = scope["path"].removeprefix("/").partition("/")
        app = apps.get(name) or PlainTextResponse(f"There are: {', '.join(apps)}.\n", status_code=404)
        inner = {
            **scope,
            "root_path": "",
            "path": f"/{rest}",
            "raw_path": f"/{rest}".encode(),
            FULL: scope["path"],
        }
        await app(inner, receive, send)

    return route


class LosesAnswers:
    """The call is done; whether its answer arrives is another matter."""

    def __init__(self, app: ASGIApp, cloud: Cloud, cut: Callable[[Scope], None]) -> None:
        self._app = app
        self._cloud = cloud
        self._cut = cut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = Call()
        CALL.set(call)
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        await self._app(scope, receive, hold)
        if (fault := self._lost(call)) is not None:
            await asyncio.sleep(fault.seconds)
            self._cut(scope)
            return
        for message in held:
            await send(message)

    def _lost(self, call: Call) -> Fault | None:
        occasion = Occasion(vendor=call.vendor, operations=call.operations)
        return self._cloud.faults.strikes(Kind.LOST_ANSWER, occasion) if call.vendor else None
