"""Serve the web app: one page for every path of the app, and the page's scripts and styles.

These files hold no data, so that they need no login. The page's own requests do. Nothing is read when the server
starts: `make web` or the wheel puts the files into the folder `static`, which an installation from a checkout may lack.
"""

import asyncio
import re
import secrets
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from anygpu.errors import NotFound

STATIC = Path(__file__).resolve().parent.parent / "static"
PAGES = ("jobs", "new", "compare", "queue", "costs", "machines", "accuracy", "settings")
ASSETS = "/assets/"
EMPTY_NONCE = b'<meta name="csp-nonce" content=""'
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self' data: blob:; connect-src 'self';"
    " font-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NOT_BUILT = """The web app is not built.
In a checkout of the repository, run <code>make web</code> and reload this page.
A normal installation (<code>pip install anygpu</code>) contains it."""
# A file name of the build. It has no separator and does not begin with a dot, so that it stays in its folder.
_ASSET_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def start_route() -> BaseRoute:
    """Return the route of `/`. It must come before the API's route of the same path."""
    return StartPageRoute("/", _get_page, methods=["GET"])


def web_routes() -> list[BaseRoute]:
    paths = [path for page in PAGES for path in (f"/{page}", f"/{page}/{{rest:path}}")]
    return [
        *(Route(path, _get_page, methods=["GET"]) for path in paths),
        Route(f"{ASSETS}{{name}}", _get_asset, methods=["GET"]),
    ]


class StartPageRoute(Route):
    """The route of `/` for browsers. Programs get the list of the API's paths there."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if accepts_html(scope) else (Match.NONE, {})


def accepts_html(scope: Scope) -> bool:
    """Return whether a request comes from a browser that wants a page, not from a program that wants JSON."""
    accept = b",".join(value for name, value in scope.get("headers", ()) if name == b"accept")
    return b"text/html" in accept and b"application/json" not in accept


def is_page(path: str) -> bool:
    """Return whether the path shows a page of the web app, whatever follows its first part."""
    return path.split("/", 2)[1] in PAGES if path.startswith("/") else False


def needs_no_login(scope: Scope) -> bool:
    """Return whether a request is for the web app itself."""
    path = scope["path"]
    return is_page(path) or path.startswith(ASSETS) or (path == "/" and accepts_html(scope))


def own_path(text: str) -> str:
    """Return the path and query of a page of the web app; `/` for anything else, such as another site's address."""
    if not text.isprintable() or not text.isascii() or "\\" in text:
        return "/"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    return text if not parts.scheme and not parts.netloc and is_page(parts.path) else "/"


def message_page(text: str, status: int) -> Response:
    """Return a page without scripts that shows one message. `text` is HTML."""
    body = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>anygpu</title>'
        f'<meta name="viewport" content="width=device-width"><p>{text}</p></html>'
    )
    return HTMLResponse(body, status, {**_page_headers(""), "Cache-Control": "no-store"})


def failed_login_page(reason: str) -> Response:
    text = f"{escape(reason)}<br>Run <code>anygpu open</code> for a new link."
    return message_page(text, 401)


async def _get_page(request: Request) -> Response:
    try:
        page = await asyncio.to_thread((STATIC / "index.html").read_bytes)
    except OSError:
        return message_page(NOT_BUILT, 503)
    etag = f'W/"{sha256(page + POLICY.encode()).hexdigest()[:20]}"'
    fresh = {"ETag": etag, "Cache-Control": "no-cache", "Vary": "Accept"}
    if etag in request.headers.get("if-none-match", ""):
        # The browser keeps the headers of the stored page, whose nonce is the one in its text.
        return Response(None, 304, fresh)
    nonce = secrets.token_urlsafe(16)
    body = page.replace(EMPTY_NONCE, EMPTY_NONCE[:-1] + nonce.encode() + b'"', 1)
    return HTMLResponse(body, 200, {**_page_headers(nonce), **fresh})


def _page_headers(nonce: str) -> dict[str, str]:
    policy = POLICY.format(nonce=f" 'nonce-{nonce}'" if nonce else "")
    return {"Content-Security-Policy": policy, **SECURITY_HEADERS}


async def _get_asset(request: Request) -> Response:
    name: str = request.path_params["name"]
    if _ASSET_NAME.fullmatch(name) is None:
        raise NotFound(f"There is no file {name[:100]!r}.")
    headers = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    path = STATIC / "assets" / name
    media_type = MEDIA_TYPES.get(path.suffix, "application/octet-stream")
    try:
        data, encoding = await asyncio.to_thread(_read_encoded, path, request.headers)
    except OSError:
        raise NotFound(f"There is no file {name[:100]!r}. Reload the page.") from None
    return Response(data, 200, {**headers, **encoding}, media_type)


def _read_encoded(path: Path, headers: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
    """Return the content of a file, compressed if the build made a compressed copy and the client accepts it."""
    compressed = path.with_name(f"{path.name}.gz")
    if not compressed.is_file():
        return path.read_bytes(), {}
    vary = {"Vary": "Accept-Encoding"}
    if "gzip" not in headers.get("accept-encoding", ""):
        return path.read_bytes(), vary
    return compressed.read_bytes(), {**vary, "Content-Encoding": "gzip"}
