"""`/blobs/{key}`: read and write blobs by signed URL, for blob stores that cannot sign URLs themselves."""

import re
from collections.abc import AsyncIterator
from time import time

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from anygpu.api.reports import StoredBlob
from anygpu.errors import BlobCorrupt, BlobMissing, TooLarge
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.errors import MalformedRequest
from anygpu.server.services import Services
from anygpu.store.blobs.contract import BlobInfo, Blobs
from anygpu.store.blobs.keys import chunk_sha256
from anygpu.store.blobs.signing import verify_url
from anygpu.store.blobs.uploads import verify_stream


def absolute_url(url: str, base: str) -> str:
    return f"{base.rstrip('/')}{url}" if url.startswith("/") else url


CHUNK_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def blob_routes() -> list[BaseRoute]:
    return [Route("/blobs/{key:path}", _handle_blob, methods=["GET", "HEAD", "PUT"])]


async def _handle_blob(request: Request) -> Response:
    services: Services = request.app.state.services
    key = request.path_params["key"]
    grant = verify_url(request.method, key, request.query_params, now=time(), secret=services.blob_secret)
    if request.method == "PUT":
        limit = services.limits.blob_bytes
        max_bytes = limit if grant.max_size is None else min(limit, grant.max_size)
        return await _put(request, services.blobs, key, max_bytes)
    return await _get(request, services.blobs, key)


async def _put(request: Request, blobs: Blobs, key: str, max_bytes: int) -> Response:
    content_length = request.headers.get("content-length", "")
    if content_length.isdigit() and int(content_length) > max_bytes:
        raise TooLarge(
            f"the upload has {content_length} bytes, which is more than the {max_bytes} bytes that this URL "
            "allows; upload less, or request a URL for more",
            limit_bytes=max_bytes,
        )
    try:
        info = await blobs.put(key, _verified_body(request, key, max_bytes))
    except BlobCorrupt:
        raise MalformedRequest(
            "the SHA-256 of the uploaded bytes differs from the one in the URL, so nothing was stored; "
            "upload the content of that SHA-256"
        ) from None
    return JsonResponse(StoredBlob(key=info.key, size=info.size), 201)


def _verified_body(request: Request, key: str, max_bytes: int) -> AsyncIterator[bytes]:
    """Return the pieces of the body. If the key contains the hash of its content, the hash is verified."""
    body, sha256 = _read_limited(request, max_bytes), chunk_sha256(key)
    return body if sha256 is None else verify_stream(body, sha256=sha256, limit=max_bytes)


async def _read_limited(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    received = 0
    try:
        async for chunk in request.stream():
            received += len(chunk)
            if received > max_bytes:
                raise TooLarge(
                    f"the upload has more than the {max_bytes} bytes that this URL allows; upload less, or request a "
                    "URL for more",
                    limit_bytes=max_bytes,
                )
            yield chunk
    except ClientDisconnect:
        raise MalformedRequest(
            "the connection ended before the whole body had arrived; send the request again"
        ) from None


async def _get(request: Request, blobs: Blobs, key: str) -> Response:
    info = await blobs.head(key)
    if info is None:
        raise BlobMissing(key=key)
    headers = {"Accept-Ranges": "bytes", "X-Content-Type-Options": "nosniff"}
    requested = parse_range(request.headers.get("range", ""), info.size)
    if requested is None:
        headers["Content-Length"] = str(info.size)
        return _bytes_response(request, blobs.stream(key), 200, headers)
    start, end = requested
    if start >= info.size or end <= start:
        return Response(None, 416, {**headers, "Content-Range": f"bytes */{info.size}"})
    headers |= {"Content-Range": f"bytes {start}-{end - 1}/{info.size}", "Content-Length": str(end - start)}
    return _bytes_response(request, _read_range(blobs, info, start, end), 206, headers)


def _bytes_response(
    request: Request, chunks: AsyncIterator[bytes], status: int, headers: dict[str, str]
) -> Response:
    media_type = "application/octet-stream"
    if request.method == "HEAD":
        return Response(None, status, headers, media_type)
    return StreamingResponse(chunks, status, headers, media_type)


async def _read_range(blobs: Blobs, info: BlobInfo, start: int, end: int) -> AsyncIterator[bytes]:
    while start < end:
        chunk = await blobs.get(info.key, start=start, length=min(CHUNK_BYTES, end - start))
        if not chunk:
            raise BlobMissing(key=info.key)
        start += len(chunk)
        yield chunk


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """Return start and end of the requested range; None for the whole blob, or if the header cannot be parsed."""
    match = _RANGE.fullmatch(header.strip())
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size
