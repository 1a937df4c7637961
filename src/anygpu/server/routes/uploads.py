"""Working-directory archives, by the hash of their content."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from anygpu.errors import BlobCorrupt, InvalidSpec, NotFound, Problem
from anygpu.server.bodies import Json
from anygpu.server.documented import PROBLEMS, answers, takes_bytes
from anygpu.server.problems import MalformedRequest
from anygpu.server.services import Asking, Served

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
async def put(sha256: Sha256, request: Request, served: Served, asking: Asking) -> Json:
    """Store a tar.gz. Its content must have this hash."""
    organisation = asking.scope.organisation
    if await served.uploads.has(organisation, sha256, since_ms=served.clock.wall_ms() - FRESH_MS):
        return Json({"sha256": sha256, "size": None}, 200)
    try:
        limit = served.limits.upload_bytes
        info = await served.uploads.save(organisation, sha256, request.stream(), limit=limit)
    except ClientDisconnect:
        raise MalformedRequest("the connection ended before the archive") from None
    except BlobCorrupt:
        raise InvalidSpec(
            [Problem("sha256", sha256, "the archive has another hash", source="path")]
        ) from None
    return Json({"sha256": sha256, "size": info.size}, 201)


@router.head(
    "/{sha256}", responses={200: {"description": "It is there."}, **PROBLEMS}, response_class=Response
)
async def head(sha256: Sha256, served: Served, asking: Asking) -> Response:
    """Whether the organisation has this archive."""
    since_ms = served.clock.wall_ms() - FRESH_MS
    if not await served.uploads.has(asking.scope.organisation, sha256, since_ms=since_ms):
        raise NotFound("this archive was not uploaded")
    return Response(None, 200)
