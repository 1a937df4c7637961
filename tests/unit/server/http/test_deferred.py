"""Routes that are built at the first request that needs them."""

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from anygpu.server.http.deferred import DeferredRoutes


def answer() -> None:
    """An endpoint that is never called."""


def request(path: str) -> Scope:
    return {"type": "http", "path": path, "method": "GET", "headers": [], "root_path": "", "path_params": {}}


def router() -> tuple[list[BaseRoute], DeferredRoutes, list[str]]:
    built: list[str] = []
    routes: list[BaseRoute] = [Route("/early", answer)]

    def build() -> list[BaseRoute]:
        built.append("built")
        return [Route("/late", answer), Route("/later", answer)]

    deferred = DeferredRoutes(routes, build)
    routes += [deferred, Route("/{rest}", answer)]
    return routes, deferred, built


def first_match(routes: list[BaseRoute], path: str) -> str:
    for route in routes:  # the list grows while it is read, as in a router
        if route.matches(request(path))[0] is not Match.NONE:
            assert isinstance(route, Route)
            return route.path
    return ""


def test_a_request_for_an_earlier_route_builds_nothing() -> None:
    routes, _, built = router()
    assert first_match(routes, "/early") == "/early"
    assert built == []


def test_the_request_that_reaches_it_gets_the_new_routes_before_the_following_ones() -> None:
    routes, _, built = router()
    assert first_match(routes, "/late") == "/late"
    assert first_match(routes, "/other") == "/{rest}"
    assert built == ["built"]


def test_loading_again_adds_nothing() -> None:
    routes, deferred, built = router()
    deferred.load()
    deferred.load()
    assert [route.path for route in routes if isinstance(route, Route)] == [
        "/early",
        "/late",
        "/later",
        "/{rest}",
    ]
    assert built == ["built"]
