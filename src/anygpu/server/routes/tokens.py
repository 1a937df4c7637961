"""Tokens of the organisation. For administrators; a token is shown once, when it is made."""

import re
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from anygpu.errors import InvalidSpec, Problem
from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import JsonResponse, number_field, only_fields, read_object, text_field
from anygpu.server.http.openapi import answers, fields, nothing, takes
from anygpu.server.jobs.render import format_optional_time
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.store.scope import Scope
from anygpu.store.sql.tokens import Token
from anygpu.tenancy.auth import Caller, Role, purpose_of, role_of

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
    "used_at": None,
    "expires_at": None,
}
WANTED = {
    "name": "laptop",
    "role": "member",
    "organisation": "local",
    "project": "default",
    "person": "me",
    "expires_s": 86400,
}
SCHEMA = fields(
    name="string", role="string", organisation="string", project="string", person="string", expires_s="number"
)
Project = Annotated[str | None, Query(max_length=100)]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@router.post(
    "",
    status_code=201,
    responses=answers("The only time it is shown.", {**TOKEN, "token": "anygpu_…"}, status=201),
    openapi_extra=takes(WANTED, required=False, schema=SCHEMA),
)
async def create_token(request: Request, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """A new token of this organisation."""
    caller.require(Role.ADMIN)
    body = await read_object(request)
    only_fields(body, *WANTED)
    record, token = await services.authenticator.create_token(
        _token_scope(caller, body),
        _token_role(caller, text_field(body, "role", default=Role.MEMBER)),
        label=text_field(body, "name", default=""),
        life_s=number_field(body, "expires_s"),
    )
    return JsonResponse({**_render_token(record), "token": token}, 201)


@router.get("", responses=answers("Without their secrets.", {"tokens": [TOKEN]}))
async def list_tokens(services: ServicesDep, caller: CallerDep, project: Project = None) -> JsonResponse:
    """Tokens and browser sessions of a project, by default your own."""
    caller.require(Role.ADMIN)
    found = await services.authenticator.list_tokens(_in_project(caller.scope, project))
    return JsonResponse({"tokens": [_render_token(each) for each in found]})


@router.delete(
    "/{token_id}", status_code=204, responses=nothing("It works no more."), response_class=Response
)
async def revoke_token(
    token_id: str, services: ServicesDep, caller: CallerDep, project: Project = None
) -> Response:
    """End a token or a browser session of a project, by default your own."""
    caller.require(Role.ADMIN)
    await services.authenticator.revoke_token(_in_project(caller.scope, project), token_id)
    return Response(None, 204)


def _in_project(scope: Scope, project: str | None) -> Scope:
    return scope if project is None else replace(scope, project=project)


def _token_scope(caller: Caller, body: dict[str, Any]) -> Scope:
    """Only the operator of the server gives tokens to another organisation."""
    own = caller.scope
    organisation = text_field(body, "organisation", default=own.organisation)
    if organisation != own.organisation:
        caller.require(Role.OPERATOR)
    project = text_field(body, "project", default=own.project)
    person = text_field(body, "person", default=own.person)
    wrong = [name for name in (organisation, project) if not NAME.fullmatch(name)]
    if wrong:
        raise InvalidSpec([Problem("", wrong[0], "is not a name for an organisation or project", "", "body")])
    return Scope(organisation=organisation, project=project, person=person)


def _token_role(caller: Caller, text: str) -> Role:
    try:
        role = Role(text)
    except ValueError:
        known = f"known: {', '.join(Role)}"
        raise InvalidSpec([Problem("role", text, "unknown role", known, "body")]) from None
    caller.require(role)
    return role


def _render_token(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.label,
        "organisation": token.scope.organisation,
        "project": token.scope.project,
        "person": token.scope.person,
        "role": str(role_of(token)),
        "purpose": str(purpose_of(token)),
        "created_at": format_time(token.created_at_ms),
        "used_at": format_optional_time(token.used_at_ms),
        "expires_at": format_optional_time(token.expires_at_ms),
    }
