"""The API as a whole."""

import re
from pathlib import Path

from fastapi.routing import APIRoute

from anygpu.server.app import ROUTERS

API_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "api.md"


def paths() -> set[str]:
    routes = (route for module in ROUTERS for route in module.router.routes)
    return {re.sub(r"\{\w+(:path)?\}", "{}", route.path) for route in routes if isinstance(route, APIRoute)}


def test_the_page_of_the_api_lists_every_route() -> None:
    named = {
        re.sub(r"\{\w+\}", "{}", path) for path in re.findall(r"(?<=[A-Z] )/[^\s`?]*", API_PAGE.read_text())
    }
    assert paths() <= named


def test_every_model_named_on_the_page_exists() -> None:
    models = {
        route.documented_model.__name__
        for module in ROUTERS
        for route in module.router.routes
        if getattr(route, "documented_model", None)
    }
    named = {*re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", API_PAGE.read_text())}
    assert named - {"HttpOnly", "BackendRequest", "TokenRequest", "WebSocket", "NaN", "OpenAPI"} <= models
