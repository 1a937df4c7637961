"""`/blobs/{key}`: bytes for whoever holds a link we signed. Served on both listeners, for stores that cannot sign."""

import re
from collections.abc import AsyncIterator
from time import time

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from anygpu.errors import BlobMissing, TooLarge
from anygpu.server.bodies import Json
from anygpu.server.problems import MalformedRequest
from anygpu.server.services import Services
from anygpu.store.blobs import BlobInfo, Blobs
from anygpu.store.signing import verify

PIECE_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def routes() -> list[BaseRoute]:
    return [Route("/blobs/{key:path}", _blob, methods=["GET", "HEAD", "PUT"])]


async def _blob(request: Request) -> Response:
    services: Services = request.app.state.services
    key = request.path_params["key"]
    grant = verify(request.method, key, request.query_params, now=time(), secret=services.blob_secret)
    if request.method == "PUT":
        limit = services.limits.blob_bytes
        most = limit if grant.max_size is None else min(limit, grant.max_size)
        return await _put(request, services.blobs, key, most)
    return await _get(request, services.blobs, key)


async def _put(request: Request, blobs: Blobs, key: str, most: int) -> Response:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise TooLarge(f"{announced} bytes are more than this link allows", limit_bytes=most)
    info = await blobs.put(key, _at_most(request, most))
    return Json({"key": info.key, "size": info.size}, 201)


async def _at_most(request: Request, most: int) -> AsyncIterator[bytes]:
    seen = 0
    try:
        async for piece in request.stream():
            seen += len(piece)
            if seen > most:
                raise TooLarge(f"more than the {most} bytes this link allows", limit_bytes=most)
            yield piece
    except ClientDisconnect:
        raise MalformedRequest("the connection ended before the body") from None


async def _get(request: Request, blobs: Blobs, key: str) -> Response:
    info = await blobs.head(key)
    if info is None:
        raise BlobMissing(key=key)
    headers = {"Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff"}
    wanted = _wanted(request.headers.get("range", ""), info.size)
    if wanted is None:
        headers["Content-Length"] = str(info.size)
        return _bytes(request, blobs.stream(key), 200, headers)
    start, end = wanted
    if start >= info.size or end <= start:
        return Response(None, 416, {**headers, "Content-Range": f"bytes */{info.size}"})
    headers |= {"Content-Range": f"bytes {start}-{end - 1}/{info.size}", "Content-Length": str(end - start)}
    return _bytes(request, _pieces(blobs, info, start, end), 206, headers)


def _bytes(request: Request, pieces: AsyncIterator[bytes], status: int, headers: dict[str, str]) -> Response:
    kind = "application/octet-stream"
    if request.method == "HEAD":
        return Response(None, status, headers, kind)
    return StreamingResponse(pieces, status, headers, kind)


async def _pieces(blobs: Blobs, info: BlobInfo, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        piece = await blobs.get(info.key, start=start, length=min(PIECE_BYTES, end - start))
        if not piece:
            raise BlobMissing(key=info.key)
        start += len(piece)
        yield piece


def _wanted(header: str, size: int) -> tuple[int, int] | None:
    """The one range asked for, or None for everything: what is not understood is not a range."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found.group(1) == found.group(2) == "":
        return None
    first, last = found.groups()
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size
