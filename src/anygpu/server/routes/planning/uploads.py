"""Routes for uploaded files and archives of working directories, stored under the SHA-256 of their content."""

from typing import Annotated

from fastapi import Path, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from anygpu.api.uploads import StoredArchive
from anygpu.errors import BlobCorrupt, InvalidSpec, NotFound, Problem
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.errors import MalformedRequest
from anygpu.server.http.openapi import bytes_body
from anygpu.server.http.route import api_router
from anygpu.server.services import CallerDep, ServicesDep

router = api_router("/api/v1/uploads", tag="uploads")

Sha256 = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
FRESH_MS = 12 * 3600 * 1000  # retention may remove an older archive before a job refers to it


@router.put(
    "/{sha256}",
    status_code=201,
    response_model=StoredArchive,
    response_description="Stored.",
    responses={200: {"description": "It was stored before."}},
    openapi_extra=bytes_body(),
)
async def put_archive(
    sha256: Sha256, request: Request, services: ServicesDep, caller: CallerDep
) -> JsonResponse:
    """Store a file, or a .tar.gz archive. The SHA-256 of its content must be the one in the path."""
    organisation = caller.scope.organisation
    if await services.uploads.has(organisation, sha256, since_ms=services.clock.wall_ms() - FRESH_MS):
        return JsonResponse(StoredArchive(sha256=sha256, size=None), 200)
    try:
        limit = max(services.limits.upload_bytes, services.limits.snapshot_bytes)
        info = await services.uploads.save(organisation, sha256, request.stream(), limit=limit)
    except ClientDisconnect:
        raise MalformedRequest(
            "the connection ended before the whole archive had arrived; upload it again"
        ) from None
    except BlobCorrupt:
        raise InvalidSpec(
            [
                Problem(
                    "sha256",
                    sha256,
                    "is not the SHA-256 of the uploaded archive; upload it again to the URL with its own SHA-256",
                    source="path",
                )
            ]
        ) from None
    return JsonResponse(StoredArchive(sha256=sha256, size=info.size), 201)


@router.head("/{sha256}", response_description="It is stored.", response_class=Response)
async def check_archive(sha256: Sha256, services: ServicesDep, caller: CallerDep) -> Response:
    """Check whether the organisation has stored this archive."""
    since_ms = services.clock.wall_ms() - FRESH_MS
    if not await services.uploads.has(caller.scope.organisation, sha256, since_ms=since_ms):
        raise NotFound("The server has no archive with this SHA-256. Upload it with PUT to this URL.")
    return Response(None, 200)
