"""Secrets: stored, named, removed; never shown."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from anygpu.server.bodies import Json, only_fields, read_object, text_field
from anygpu.server.documented import answers, fields, nothing, takes
from anygpu.server.hub import iso
from anygpu.server.services import Asking, Served

router = APIRouter(prefix="/api/v1/secrets", tags=["secrets"])

Name = Annotated[str, Path(pattern="^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=200)]
LONGEST = 65536
SECRET = {"name": "HF_TOKEN", "person": "me", "updated_at": "2026-01-05T10:00:00.000Z"}


@router.get("", responses=answers("Names, never values.", {"secrets": [SECRET]}))
async def names(served: Served, asking: Asking) -> Json:
    """The project's secrets, without their values."""
    found = await served.secrets.list(asking.scope)
    return Json(
        {"secrets": [{"name": s.name, "person": s.person, "updated_at": iso(s.updated_at_ms)} for s in found]}
    )


@router.put(
    "/{name:path}",
    status_code=204,
    responses=nothing("Stored, encrypted."),
    openapi_extra=takes({"value": "hf_…"}, schema=fields(value="string") | {"required": ["value"]}),
    response_class=Response,
)
async def put(name: Name, request: Request, served: Served, asking: Asking) -> Response:
    """Store or replace a secret."""
    body = await read_object(request)
    only_fields(body, "value")
    value = text_field(body, "value", most=LONGEST)
    await served.secrets.put(asking.scope, name, value, at_ms=served.clock.wall_ms())
    return Response(None, 204)


@router.delete("/{name:path}", status_code=204, responses=nothing("Gone."), response_class=Response)
async def delete(name: Name, served: Served, asking: Asking) -> Response:
    """Remove a secret. Jobs that need it will say so."""
    await served.secrets.delete(asking.scope, name)
    return Response(None, 204)
