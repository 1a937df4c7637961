"""Routes for the tokens of an organisation, for its administrators."""

import re
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query
from starlette.responses import Response

from anygpu.api.access import CreatedToken, TokenDetails, TokenList, TokenRequest
from anygpu.errors import InvalidSpec, Problem
from anygpu.server.encoding import format_optional_time, format_time
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.services import AdminDep, ServicesDep
from anygpu.store.scope import Scope
from anygpu.store.sql.tokens import Token
from anygpu.tenancy.auth import Caller, Role, purpose_of, role_of

router = api_router("/api/v1/tokens", tag="tokens")

Project = Annotated[str | None, Query(max_length=100)]
Organisation = Annotated[str | None, Query(max_length=100)]
TokenBody = Annotated[TokenRequest, Depends(JsonBody(TokenRequest, required=False))]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@router.post("", status_code=201, response_description="The token, shown this once.")
async def create_token(caller: AdminDep, body: TokenBody, services: ServicesDep) -> CreatedToken:
    """Create a token for this organisation."""
    record, token = await services.authenticator.create_token(
        _token_scope(caller, body), _token_role(caller, body.role), label=body.name, life_s=body.expires_s
    )
    return CreatedToken(**_render_token(record).model_dump(), token=token)


@router.get("", response_description="Without their secrets.")
async def list_tokens(
    services: ServicesDep, caller: AdminDep, project: Project = None, organisation: Organisation = None
) -> TokenList:
    """List the tokens and browser sessions of a project, by default the caller's.

    Only the operator may name another organisation.
    """
    scope = caller.scope
    if organisation is not None and organisation != scope.organisation:
        caller.require(Role.OPERATOR)
        scope = replace(scope, organisation=organisation)
    tokens = await services.authenticator.list_tokens(_in_project(scope, project))
    return TokenList(tokens=[_render_token(each) for each in tokens])


@router.delete("/{token_id}", status_code=204, response_description="Revoked.", response_class=Response)
async def revoke_token(
    token_id: str, services: ServicesDep, caller: AdminDep, project: Project = None
) -> Response:
    """Revoke a token or browser session of a project, by default the caller's."""
    await services.authenticator.revoke_token(caller, token_id, project=project)
    return Response(None, 204)


def _in_project(scope: Scope, project: str | None) -> Scope:
    return scope if project is None else replace(scope, project=project)


def _token_scope(caller: Caller, body: TokenRequest) -> Scope:
    """Return the scope of the new token. Only the operator may create tokens for another organisation."""
    own = caller.scope
    given = body.model_dump(include={"organisation", "project", "person"}, exclude_unset=True)
    scope = replace(own, **given)
    if scope.organisation != own.organisation:
        caller.require(Role.OPERATOR)
    wrong = [name for name in (scope.organisation, scope.project) if not NAME.fullmatch(name)]
    if wrong:
        raise InvalidSpec(
            [
                Problem(
                    "",
                    wrong[0],
                    "is not a valid name for an organisation or project; use letters, digits, '.', '_' and '-'",
                    "",
                    "body",
                )
            ]
        )
    return scope


def _token_role(caller: Caller, text: str) -> Role:
    try:
        role = Role(text)
    except ValueError:
        known = f"the roles are {', '.join(Role)}"
        raise InvalidSpec([Problem("role", text, "is not a role", known, "body")]) from None
    caller.require(role)
    return role


def _render_token(token: Token) -> TokenDetails:
    return TokenDetails(
        id=token.id,
        name=token.label,
        organisation=token.scope.organisation,
        project=token.scope.project,
        person=token.scope.person,
        role=str(role_of(token)),
        purpose=str(purpose_of(token)),
        created_at=format_time(token.created_at_ms),
        used_at=format_optional_time(token.used_at_ms),
        expires_at=format_optional_time(token.expires_at_ms),
    )
