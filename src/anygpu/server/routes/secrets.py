"""Secrets: stored, named, removed; never shown."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from anygpu.errors import NotFound
from anygpu.server.bodies import Json, only_fields, read_object, text_field
from anygpu.server.documented import answers, nothing, takes
from anygpu.server.services import Asking, Served

router = APIRouter(prefix="/api/v1/secrets", tags=["secrets"])

# The same names a job may refer to, one path segment each.
Name = Annotated[str, Path(pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]
LONGEST = 65536


@router.get("", responses=answers("Names, never values.", {"secrets": ["HF_TOKEN"]}))
async def names(served: Served, asking: Asking) -> Json:
    """The names of the project's secrets."""
    scope = asking.scope
    return Json({"secrets": sorted(await served.secrets.names(scope.organisation, scope.project))})


@router.put(
    "/{name}",
    status_code=204,
    responses=nothing("Stored, encrypted."),
    openapi_extra=takes({"value": "hf_…"}),
    response_class=Response,
)
async def put(name: Name, request: Request, served: Served, asking: Asking) -> Response:
    """Store or replace a secret."""
    body = await read_object(request)
    only_fields(body, "value")
    value = text_field(body, "value", most=LONGEST)
    await served.secrets.put(asking.scope.organisation, asking.scope.project, name, value)
    return Response(None, 204)


@router.delete("/{name}", status_code=204, responses=nothing("Gone."), response_class=Response)
async def delete(name: Name, served: Served, asking: Asking) -> Response:
    """Remove a secret. Jobs that need it will say so."""
    if not await served.secrets.delete(asking.scope.organisation, asking.scope.project, name):
        raise NotFound(f"there is no secret {name}")
    return Response(None, 204)
