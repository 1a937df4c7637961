"""Working-directory archives, by the hash of their content."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from anygpu.errors import BlobCorrupt, InvalidSpec, NotFound, Problem
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.errors import MalformedRequest
from anygpu.server.http.openapi import PROBLEMS, answers, takes_bytes
from anygpu.server.services import CallerDep, ServicesDep

router = APIRouter(prefix="/api/v1/uploads", tags=["uploads"])

Sha256 = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
FRESH_MS = 12 * 3600 * 1000  # retention may remove an older one before a job refers to it
EXAMPLE = {"sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "size": 2048}


@router.put(
    "/{sha256}",
    status_code=201,
    responses=answers("Stored.", EXAMPLE, status=201, also={200: "It was there already."}),
    openapi_extra=takes_bytes(),
)
async def put_archive(
    sha256: Sha256, request: Request, services: ServicesDep, caller: CallerDep
) -> JsonResponse:
    """Store a tar.gz. Its content must have this hash."""
    organisation = caller.scope.organisation
    if await services.uploads.has(organisation, sha256, since_ms=services.clock.wall_ms() - FRESH_MS):
        return JsonResponse({"sha256": sha256, "size": None}, 200)
    try:
        limit = services.limits.upload_bytes
        info = await services.uploads.save(organisation, sha256, request.stream(), limit=limit)
    except ClientDisconnect:
        raise MalformedRequest("the connection ended before the archive") from None
    except BlobCorrupt:
        raise InvalidSpec(
            [Problem("sha256", sha256, "the archive has another hash", source="path")]
        ) from None
    return JsonResponse({"sha256": sha256, "size": info.size}, 201)


@router.head(
    "/{sha256}", responses={200: {"description": "It is there."}, **PROBLEMS}, response_class=Response
)
async def check_archive(sha256: Sha256, services: ServicesDep, caller: CallerDep) -> Response:
    """Whether the organisation has this archive."""
    since_ms = services.clock.wall_ms() - FRESH_MS
    if not await services.uploads.has(caller.scope.organisation, sha256, since_ms=since_ms):
        raise NotFound("this archive was not uploaded")
    return Response(None, 200)
