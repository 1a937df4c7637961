"""Secrets: stored, named, removed; never shown."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import JsonResponse, only_fields, read_object, text_field
from anygpu.server.http.openapi import answers, fields, nothing, takes
from anygpu.server.services import CallerDep, ServicesDep

router = APIRouter(prefix="/api/v1/secrets", tags=["secrets"])

Name = Annotated[str, Path(pattern="^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=200)]
MAX_LENGTH = 65536
SECRET = {"name": "HF_TOKEN", "person": "me", "updated_at": "2026-01-05T10:00:00.000Z"}


@router.get("", responses=answers("Names, never values.", {"secrets": [SECRET]}))
async def list_secrets(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """The project's secrets, without their values."""
    found = await services.secrets.list(caller.scope)
    return JsonResponse(
        {
            "secrets": [
                {"name": s.name, "person": s.person, "updated_at": format_time(s.updated_at_ms)}
                for s in found
            ]
        }
    )


@router.put(
    "/{name:path}",
    status_code=204,
    responses=nothing("Stored, encrypted."),
    openapi_extra=takes({"value": "hf_…"}, schema=fields(value="string") | {"required": ["value"]}),
    response_class=Response,
)
async def put_secret(name: Name, request: Request, services: ServicesDep, caller: CallerDep) -> Response:
    """Store or replace a secret."""
    body = await read_object(request)
    only_fields(body, "value")
    value = text_field(body, "value", most=MAX_LENGTH)
    await services.secrets.put(caller.scope, name, value, at_ms=services.clock.wall_ms())
    return Response(None, 204)


@router.delete("/{name:path}", status_code=204, responses=nothing("Gone."), response_class=Response)
async def delete_secret(name: Name, services: ServicesDep, caller: CallerDep) -> Response:
    """Remove a secret. Jobs that need it will say so."""
    await services.secrets.delete(caller.scope, name)
    return Response(None, 204)
