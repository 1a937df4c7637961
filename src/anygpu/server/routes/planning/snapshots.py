"""Routes for the files of uploaded working directories: which contents are missing, and uploads of small ones."""

import hashlib
import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from anygpu.api.uploads import MissingUploads, StoredBatch, UploadHashes, UploadLimits
from anygpu.errors import InvalidSpec, Problem, TooLarge
from anygpu.server.http.errors import MalformedRequest
from anygpu.server.http.openapi import bytes_body
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.services import CallerDep, ServicesDep

router = api_router("/api/v1/snapshots", tag="uploads")

MAX_BATCH_BYTES = 16 * 1024 * 1024
MAX_BATCH_FILES = 1000
_BATCH_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,8})\n")


@router.get("/limits", response_description="The limits.")
async def get_snapshot_limits(services: ServicesDep, caller: CallerDep) -> UploadLimits:
    """Show how many bytes and files a snapshot of a working directory may have."""
    limits = services.snapshots.limits
    return UploadLimits(snapshot_bytes=limits.max_bytes, snapshot_files=limits.max_files)


@router.post("/missing", response_description="The contents to upload.")
async def find_missing_contents(
    wanted: Annotated[UploadHashes, Depends(JsonBody(UploadHashes))], services: ServicesDep, caller: CallerDep
) -> MissingUploads:
    """Find out which contents the organisation has not stored."""
    now_ms = services.clock.wall_ms()
    missing = await services.snapshots.missing(caller.scope.organisation, wanted.sha256, now_ms=now_ms)
    return MissingUploads(missing=missing)


@router.post(
    "/contents",
    status_code=201,
    response_description="Stored.",
    openapi_extra=bytes_body(required=False),  # an empty body has no contents
)
async def store_contents(request: Request, services: ServicesDep, caller: CallerDep) -> StoredBatch:
    """Store several small contents.

    For each content, the body has a line with its SHA-256 and its size in bytes, separated by a space, and
    then the content.
    """
    body = await _read_bounded(request)
    contents = _parse_batch(body)
    for sha256, data in contents:
        await services.uploads.save(caller.scope.organisation, sha256, _pieces(data), limit=len(data))
    return StoredBatch(stored=len(contents))


async def _read_bounded(request: Request) -> bytes:
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_BATCH_BYTES:
                raise TooLarge(
                    f"The batch of files has more than {MAX_BATCH_BYTES} bytes, which is the limit. Send several "
                    "smaller batches."
                )
    except ClientDisconnect:
        raise MalformedRequest(
            "the connection ended before the whole batch had arrived; upload it again"
        ) from None
    return bytes(body)


def _parse_batch(body: bytes) -> list[tuple[str, bytes]]:
    contents: list[tuple[str, bytes]] = []
    position = 0
    while position < len(body):
        match = _BATCH_LINE.match(body, position)
        start = match.end() if match else 0
        data = body[start : start + int(match[2])] if match else b""
        if match is None or len(data) != int(match[2]) or len(contents) >= MAX_BATCH_FILES:
            raise InvalidSpec(
                [
                    Problem(
                        "body",
                        None,
                        f"is not a batch of files: file {len(contents) + 1} needs a line with its SHA-256 and size, "
                        f"and then that many bytes; send at most {MAX_BATCH_FILES} files",
                        source="body",
                    )
                ]
            )
        if hashlib.sha256(data).hexdigest() != match[1].decode():
            message = (
                f"file {len(contents) + 1} of the batch does not have the SHA-256 in its line; send it again"
            )
            raise InvalidSpec([Problem("body", match[1].decode(), message, source="body")])
        contents.append((match[1].decode(), data))
        position = start + len(data)
    return contents


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data
