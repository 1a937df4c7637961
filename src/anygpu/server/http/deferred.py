"""Routes that are built after the start of the server, because building a route takes about a millisecond."""

from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send


class DeferredRoutes(BaseRoute):
    """Adds further routes to a router, directly after itself, when a request reaches it or `load` is called.

    The router tries its routes in order, so the request that reaches this route is then matched against the new ones.
    """

    def __init__(self, routes: list[BaseRoute], build: Callable[[], Sequence[BaseRoute]]) -> None:
        self._routes = routes  # all routes of the router; this one is among them
        self._build: Callable[[], Sequence[BaseRoute]] | None = build

    def load(self) -> None:
        if self._build is None:
            return
        built, self._build = self._build(), None
        position = self._routes.index(self) + 1
        self._routes[position:position] = built

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        self.load()
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("this route matches no request")
