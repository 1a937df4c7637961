"""Routes that take their request and response models from the handler's signature."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from fastapi import APIRouter
from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from anygpu.api.base import ApiModel, RequestModel
from anygpu.server.http.bodies import JsonResponse, parse_body, read_object


class JsonBody:
    """A dependency that reads the request body as a model: `Annotated[Model, Depends(JsonBody(Model))]`.

    FastAPI's own body parameters are not used, because they would replace our errors about an invalid body by
    FastAPI's errors.
    """

    def __init__(self, model: type[RequestModel], *, required: bool = True) -> None:
        self.model, self.required = model, required

    async def __call__(self, request: Request) -> Any:
        return parse_body(self.model, await read_object(request))


class ModelRoute(APIRoute):
    """A route whose handler returns a model.

    The response model is the handler's return type, or `response_model` for handlers that build the response
    themselves. It is used only for the OpenAPI document: otherwise FastAPI would compile and run a validator
    for each route.
    """

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, response_model: Any = None, **options: Any
    ) -> None:
        declared = None if isinstance(response_model, DefaultPlaceholder) else response_model
        returned = endpoint.__annotations__.get("return")
        if inspect.isclass(returned) and issubclass(returned, ApiModel):
            declared = declared or returned
            endpoint = _rendering(endpoint, options.get("status_code") or 200)
        self.documented_model: type[ApiModel] | None = declared
        options["operation_id"] = endpoint.__name__
        options["responses"] = {**(options.get("responses") or {}), "default": {"description": "An error."}}
        super().__init__(path, endpoint, response_model=None, **options)

    @property
    def json_body(self) -> JsonBody | None:
        calls = (dependency.call for dependency in self.dependant.dependencies)
        return next((call for call in calls if isinstance(call, JsonBody)), None)


def api_router(prefix: str = "", *, tag: str) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=ModelRoute)


def _rendering(endpoint: Callable[..., Any], status: int) -> Callable[..., Any]:
    """Return a handler that calls `endpoint` and renders the returned model as a JSON response."""
    if not inspect.iscoroutinefunction(endpoint):

        @wraps(endpoint)
        def render(**values: Any) -> Response:
            return JsonResponse(endpoint(**values), status)

        return render

    @wraps(endpoint)
    async def render_async(**values: Any) -> Response:
        return JsonResponse(await endpoint(**values), status)

    return render_async
