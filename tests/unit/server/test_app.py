"""The API as a whole."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import httpx
from fastapi.routing import APIRoute
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route, Router

from anygpu import api
from anygpu.server.app import describe_api
from anygpu.server.http.deferred import DeferredRoutes

API_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "api.md"


def paths() -> set[str]:
    routes = (route for route in describe_api("0").routes if isinstance(route, APIRoute))
    return {re.sub(r"\{\w+(:path)?\}", "{}", route.path) for route in routes}


def test_the_page_of_the_api_lists_every_route() -> None:
    named = {
        re.sub(r"\{\w+\}", "{}", path) for path in re.findall(r"(?<=[A-Z] )/[^\s`?]*", API_PAGE.read_text())
    }
    assert paths() <= named


def test_every_model_named_on_the_page_exists() -> None:
    modules = [import_module(each.name) for each in pkgutil.iter_modules(api.__path__, "anygpu.api.")]
    models = {name for module in modules for name, each in vars(module).items() if isinstance(each, type)}
    named = {*re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", API_PAGE.read_text())}
    assert named - {"HttpOnly", "WebSocket", "NaN", "OpenAPI"} <= models


async def test_routes_that_the_start_leaves_out_are_built_when_a_request_needs_one() -> None:
    router = Router()
    routes = router.routes
    builds = []

    def build() -> list[BaseRoute]:
        builds.append("built")
        return [Route("/later", lambda request: PlainTextResponse("late"))]

    routes += [
        Route("/first", lambda request: PlainTextResponse("first")),
        DeferredRoutes(routes, build),
        Route("/{rest:path}", lambda request: PlainTextResponse("rest")),
    ]
    transport = httpx.ASGITransport(app=router)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        assert ((await client.get("/first")).text, builds) == ("first", [])
        assert ((await client.get("/later")).text, builds) == ("late", ["built"])
        assert ((await client.get("/other")).text, builds) == ("rest", ["built"])
