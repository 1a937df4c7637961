"""Tokens of the organisation. For administrators; a token is shown once, when it is made."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from anygpu.errors import InvalidSpec, Problem
from anygpu.server.bodies import Json, number_field, only_fields, read_object, text_field
from anygpu.server.documented import answers, nothing, takes
from anygpu.server.hub import iso
from anygpu.server.render import moment
from anygpu.server.services import Asking, Served
from anygpu.tenancy.access import Role, TokenRecord, in_project

router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"])

TOKEN = {
    "id": "5f0c9d1e2b3a4c5d",
    "name": "laptop",
    "organisation": "local",
    "project": "default",
    "person": "me",
    "role": "member",
    "purpose": "api",
    "created_at": "2026-01-05T10:00:00.000Z",
    "expires_at": None,
}
WANTED = {"name": "laptop", "role": "member", "project": "default", "person": "me", "expires_s": 86400}


@router.post(
    "",
    status_code=201,
    responses=answers("The only time it is shown.", {**TOKEN, "token": "anygpu_…"}, status=201),
    openapi_extra=takes(WANTED, required=False),
)
async def create(request: Request, served: Served, asking: Asking) -> Json:
    """A new token of this organisation."""
    asking.require(Role.ADMIN)
    body = await read_object(request)
    only_fields(body, *WANTED)
    scope = in_project(
        asking.scope, text_field(body, "project", default=""), text_field(body, "person", default="")
    )
    record, token = await served.access.create(
        scope,
        _role(text_field(body, "role", default=Role.MEMBER)),
        name=text_field(body, "name", default=""),
        life_s=number_field(body, "expires_s"),
    )
    return Json({**_shown(record), "token": token}, 201)


@router.get("", responses=answers("Without their secrets.", {"tokens": [TOKEN]}))
async def every(served: Served, asking: Asking) -> Json:
    """The organisation's tokens and browser sessions."""
    asking.require(Role.ADMIN)
    records = await served.access.tokens(asking.scope.organisation)
    return Json({"tokens": [_shown(record) for record in records]})


@router.delete(
    "/{token_id}", status_code=204, responses=nothing("It works no more."), response_class=Response
)
async def revoke(token_id: str, served: Served, asking: Asking) -> Response:
    """End a token or a browser session."""
    asking.require(Role.ADMIN)
    await served.access.revoke(asking.scope.organisation, token_id)
    return Response(None, 204)


def _role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        known = f"known: {', '.join(Role)}"
        raise InvalidSpec([Problem("role", text, "unknown role", known, "body")]) from None


def _shown(record: TokenRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "organisation": record.scope.organisation,
        "project": record.scope.project,
        "person": record.scope.person,
        "role": str(record.role),
        "purpose": str(record.purpose),
        "created_at": iso(record.created_at_ms),
        "expires_at": moment(record.expires_at_ms),
    }
