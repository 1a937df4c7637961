"""Responses that send a stored file: ranges, file names, and previews that a browser may show."""

import re
import unicodedata
from base64 import b64encode
from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from anygpu.errors import AnygpuError, BackendUnavailable, BlobCorrupt, BlobMissing, TooLarge
from anygpu.server.http.blobs import parse_range
from anygpu.server.process import log
from anygpu.store.blobs.stored_file import StoredFile, StoredFiles

MAX_TEXT_PREVIEW = 256 * 1024
MAX_IMAGE_PREVIEW = 16 * 1024 * 1024
MAX_NAME_CHARACTERS = 150
# The file comes from a job, so a browser must neither guess its type nor run anything in it.
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
}
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
TEXT_SUFFIXES = (
    *(".txt", ".log", ".md", ".rst", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".xml", ".html"),
    *(".py", ".sh", ".js", ".css", ".tex", ".out", ".err", ".conf", ".properties", ".sql"),
)
_UNSAFE_IN_NAME = re.compile(r'[<>:"/\\|?*%;]')


class NoPreview(AnygpuError):
    """This file cannot be shown as an image, text or table. Download it instead."""

    code = "no_preview"


def preview_kind(name: str, size: int) -> str | None:
    """Return how a browser can show a file: image, table or text; None if it cannot, or not at this size."""
    suffix = _suffix(name)
    if suffix in IMAGE_TYPES:
        return "image" if 0 < size <= MAX_IMAGE_PREVIEW else None
    if suffix in TABLE_SUFFIXES:
        return "table"
    return "text" if suffix in TEXT_SUFFIXES else None


async def download_response(request: Request, files: StoredFiles, file: StoredFile) -> Response:
    """Send a file, or the requested range of it, for the browser to save."""
    headers = {
        **_common_headers(file),
        "Content-Disposition": f"attachment; {file_name_parameters(file.path)}",
        "Accept-Ranges": "bytes",
        "ETag": f'"{file.sha256}"',
    }
    if request.headers.get("if-none-match", "").strip() == headers["ETag"]:
        return Response(None, 304, headers)
    requested = _requested_range(request, file, headers["ETag"])
    if requested is None:
        headers["Content-Length"] = str(file.size)
        return _stream(await files.read(file), 200, headers)
    start, end = requested
    if start >= file.size or end <= start:
        return Response(None, 416, {**headers, "Content-Range": f"bytes */{file.size}"})
    headers |= {"Content-Range": f"bytes {start}-{end - 1}/{file.size}", "Content-Length": str(end - start)}
    return _stream(await files.read(file, start, end), 206, headers)


async def preview_response(files: StoredFiles, file: StoredFile) -> Response:
    """Send an image, or the beginning of a text, for the browser to show.

    The type is checked against the content. `X-Preview-Truncated` says whether a text was cut.
    """
    headers = {**_common_headers(file), "Content-Disposition": "inline", "X-File-Size": str(file.size)}
    media_type = IMAGE_TYPES.get(_suffix(file.path))
    if media_type is not None:
        if file.size > MAX_IMAGE_PREVIEW:
            raise TooLarge(
                f"{file.path!r} has {file.size} bytes; images with more than {MAX_IMAGE_PREVIEW} bytes are not shown",
                hint="Download it instead.",
            )
        data = await _read_all(await files.read(file))
        if not _has_type(data, media_type):
            raise NoPreview(
                f"{file.path!r} cannot be shown: it does not contain an image of the type that its name says. "
                "Download it instead."
            )
        return Response(data, 200, headers, media_type)
    end = min(file.size, MAX_TEXT_PREVIEW)
    data = await _read_all(await files.read(file, 0, end))
    text = _decode(data, is_cut=end < file.size)
    if text is None:
        raise NoPreview(f"{file.path!r} is not an image, text or table", hint="Download it instead.")
    headers["X-Preview-Truncated"] = "true" if end < file.size else "false"
    return Response(text.encode(), 200, headers, "text/plain; charset=utf-8")


def file_name_parameters(path: str) -> str:
    """Return the file name parameters of a Content-Disposition header (RFC 6266) for the last part of a path.

    Characters that could end the header, name another directory or hide the real ending are replaced.
    """
    name = "".join(_safe_character(each) for each in path.rsplit("/", 1)[-1])
    name = name.strip(" .")[-MAX_NAME_CHARACTERS:] or "file"
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    extended = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'filename="{plain}"{extended}'


def _safe_character(character: str) -> str:
    # Categories C*: control and format characters, such as those that change the direction of the text.
    hidden = unicodedata.category(character).startswith("C")
    return "_" if hidden or _UNSAFE_IN_NAME.match(character) else character


def _common_headers(file: StoredFile) -> dict[str, str]:
    digest = b64encode(bytes.fromhex(file.sha256)).decode()
    return {
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": SANDBOX,
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
        "Repr-Digest": f"sha-256=:{digest}:",
    }


def _requested_range(request: Request, file: StoredFile, etag: str) -> tuple[int, int] | None:
    """Return the requested range; None for the whole file, also if the client has a part of another content."""
    if_range = request.headers.get("if-range", "").strip()
    if if_range and if_range != etag:
        return None
    return parse_range(request.headers.get("range", ""), file.size)


class FileResponse(StreamingResponse):
    """A response that streams a file.

    If the rest of the file turns out to be damaged or missing, the response stays incomplete: the server then
    closes the connection, and the client sees that bytes are missing.
    """

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except (BlobCorrupt, BlobMissing, BackendUnavailable) as error:
            log.failure("a download ended early", error)


def _stream(pieces: AsyncIterator[bytes], status: int, headers: dict[str, str]) -> Response:
    return FileResponse(pieces, status, headers, "application/octet-stream")


async def _read_all(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


def _suffix(name: str) -> str:
    base = name.rsplit("/", 1)[-1]
    return f".{base.rsplit('.', 1)[-1].lower()}" if "." in base else ""


def _has_type(data: bytes, media_type: str) -> bool:
    """Return whether the content begins as files of this type do."""
    match media_type:
        case "image/png":
            return data.startswith(b"\x89PNG\r\n\x1a\n")
        case "image/jpeg":
            return data.startswith(b"\xff\xd8\xff")
        case "image/gif":
            return data.startswith((b"GIF87a", b"GIF89a"))
        case "image/webp":
            return data[:4] == b"RIFF" and data[8:12] == b"WEBP"
        case "image/bmp":
            return data.startswith(b"BM")
        case "image/avif":
            return data[4:12] in (b"ftypavif", b"ftypavis")
        case _:
            return b"<svg" in data[:4096]


def _decode(data: bytes, *, is_cut: bool) -> str | None:
    """Return the data as text; None if it is not text. A character that the cut has split is left out."""
    if b"\0" in data:
        return None
    for missing in range(4 if is_cut else 1):
        try:
            return data[: len(data) - missing].decode()
        except UnicodeDecodeError:
            continue
    return None
