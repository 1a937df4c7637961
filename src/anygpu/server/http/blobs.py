"""`/blobs/{key}`: read and write blobs with signed URLs, for object stores that cannot sign URLs themselves."""

import re
from collections.abc import AsyncIterator
from time import time
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from anygpu.errors import BlobMissing, TooLarge
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.errors import MalformedRequest
from anygpu.server.services import Services
from anygpu.store.blobs.contract import BlobInfo, Blobs
from anygpu.store.blobs.signing import verify_url


def absolute_url(url: str, base: str) -> str:
    return f"{base.rstrip('/')}{url}" if url.startswith("/") else url


def with_absolute_urls(answer: Any, base: str) -> Any:
    """The answer with every `url` made whole, at whatever depth."""
    if isinstance(answer, dict):
        return {key: _absolute_value(key, value, base) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [with_absolute_urls(each, base) for each in answer]
    return answer


def _absolute_value(key: str, value: Any, base: str) -> Any:
    if key == "url" and isinstance(value, str):
        return absolute_url(value, base)
    return with_absolute_urls(value, base)


PIECE_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def blob_routes() -> list[BaseRoute]:
    return [Route("/blobs/{key:path}", _handle_blob, methods=["GET", "HEAD", "PUT"])]


async def _handle_blob(request: Request) -> Response:
    services: Services = request.app.state.services
    key = request.path_params["key"]
    grant = verify_url(request.method, key, request.query_params, now=time(), secret=services.blob_secret)
    if request.method == "PUT":
        limit = services.limits.blob_bytes
        most = limit if grant.max_size is None else min(limit, grant.max_size)
        return await _put(request, services.blobs, key, most)
    return await _get(request, services.blobs, key)


async def _put(request: Request, blobs: Blobs, key: str, most: int) -> Response:
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > most:
        raise TooLarge(f"{announced} bytes are more than this link allows", limit_bytes=most)
    info = await blobs.put(key, _read_limited(request, most))
    return JsonResponse({"key": info.key, "size": info.size}, 201)


async def _read_limited(request: Request, most: int) -> AsyncIterator[bytes]:
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
    wanted = _parse_range(request.headers.get("range", ""), info.size)
    if wanted is None:
        headers["Content-Length"] = str(info.size)
        return _bytes_response(request, blobs.stream(key), 200, headers)
    start, end = wanted
    if start >= info.size or end <= start:
        return Response(None, 416, {**headers, "Content-Range": f"bytes */{info.size}"})
    headers |= {"Content-Range": f"bytes {start}-{end - 1}/{info.size}", "Content-Length": str(end - start)}
    return _bytes_response(request, _read_range(blobs, info, start, end), 206, headers)


def _bytes_response(
    request: Request, pieces: AsyncIterator[bytes], status: int, headers: dict[str, str]
) -> Response:
    kind = "application/octet-stream"
    if request.method == "HEAD":
        return Response(None, status, headers, kind)
    return StreamingResponse(pieces, status, headers, kind)


async def _read_range(blobs: Blobs, info: BlobInfo, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        piece = await blobs.get(info.key, start=start, length=min(PIECE_BYTES, end - start))
        if not piece:
            raise BlobMissing(key=info.key)
        start += len(piece)
        yield piece


def _parse_range(header: str, size: int) -> tuple[int, int] | None:
    """The one range asked for, or None for everything: what is not understood is not a range."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found.group(1) == found.group(2) == "":
        return None
    first, last = found.groups()
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size
