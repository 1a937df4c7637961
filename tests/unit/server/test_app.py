"""The API as a whole."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

from fastapi.routing import APIRoute

from anygpu import api
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
    modules = [import_module(each.name) for each in pkgutil.iter_modules(api.__path__, "anygpu.api.")]
    models = {name for module in modules for name, each in vars(module).items() if isinstance(each, type)}
    named = {*re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", API_PAGE.read_text())}
    assert named - {"HttpOnly", "WebSocket", "NaN", "OpenAPI"} <= models
