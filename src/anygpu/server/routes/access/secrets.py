"""Routes for secrets: store, list and remove them. Values are never shown."""

from typing import Annotated

from fastapi import Depends, Path
from starlette.responses import Response

from anygpu.api.access import SecretList, SecretName, SecretRequest
from anygpu.server.encoding import format_time
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.services import CallerDep, ServicesDep

router = api_router("/api/v1/secrets", tag="secrets")

Name = Annotated[str, Path(pattern="^[A-Za-z0-9_][A-Za-z0-9_./-]*$", max_length=200)]
SecretBody = Annotated[SecretRequest, Depends(JsonBody(SecretRequest))]


@router.get("", response_description="Names, without values.")
async def list_secrets(services: ServicesDep, caller: CallerDep) -> SecretList:
    """List the secrets of the project, without their values."""
    stored = await services.secrets.list(caller.scope)
    return SecretList(
        secrets=[
            SecretName(name=each.name, person=each.person, updated_at=format_time(each.updated_at_ms))
            for each in stored
        ]
    )


@router.put(
    "/{name:path}", status_code=204, response_description="Stored, encrypted.", response_class=Response
)
async def put_secret(name: Name, body: SecretBody, services: ServicesDep, caller: CallerDep) -> Response:
    """Store or replace a secret."""
    await services.secrets.put(caller.scope, name, body.value, at_ms=services.clock.wall_ms())
    return Response(None, 204)


@router.delete("/{name:path}", status_code=204, response_description="Removed.", response_class=Response)
async def delete_secret(name: Name, services: ServicesDep, caller: CallerDep) -> Response:
    """Remove a secret. A job that needs it fails to start."""
    await services.secrets.delete(caller.scope, name)
    return Response(None, 204)
