"""The gate before every request: host, origin, who asks, how often, how much. What passes has a caller.

A new route is closed to strangers unless its path is listed here as open.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anygpu.errors import AnygpuError, Forbidden, TooLarge, Unauthorized
from anygpu.server.problems import HostNotAllowed, MalformedRequest, OriginNotAllowed, problem
from anygpu.server.rates import RateLimit
from anygpu.tenancy.access import Access, Caller

COOKIE = "anygpu_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/api/v1/openapi.json"})
OPEN_PREFIXES = ("/login/", "/blobs/")  # each carries its own proof: a one-time code, a signature
STREAMED_PREFIXES = ("/blobs/", "/api/v1/uploads/")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRules:
    """Which hosts we are, which web origins may act, and how large a body may be."""

    hosts: frozenset[str]
    origins: frozenset[str]
    body_bytes: int
    streamed_bytes: int


class Gate:
    """Pure ASGI, before the framework."""

    def __init__(
        self, app: ASGIApp, rules: GateRules, access: Access, requests: RateLimit, failures: RateLimit
    ) -> None:
        self._app = app
        self._rules = rules
        self._access = access
        self._requests = requests
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            await self._admit(scope)
            await self._app(scope, self._limited(scope, receive), send)
        except AnygpuError as error:
            await problem(error)(scope, receive, send)

    async def _admit(self, scope: Scope) -> None:
        headers = _Headers(scope["headers"])
        self._check_host(headers)
        self._check_origin(scope, headers)
        if is_open(scope["path"]):
            return
        caller = await self._caller(scope, headers)
        if caller.by_cookie and _changes_state(scope) and not headers.one(b"origin"):
            raise OriginNotAllowed("a request with a session cookie must name its Origin")
        if not caller.role.may_change and scope["type"] == "http" and _changes_state(scope):
            raise Forbidden(f"the role {caller.role} may only look")
        self._requests.take(caller.token_id)
        scope.setdefault("state", {})["caller"] = caller

    async def _caller(self, scope: Scope, headers: "_Headers") -> Caller:
        address = scope["client"][0] if scope.get("client") else ""
        if self._failures.empty(address):
            self._failures.take(address)
        try:
            return await self._identified(headers)
        except Unauthorized:
            self._failures.take(address)
            raise

    async def _identified(self, headers: "_Headers") -> Caller:
        scheme, _, token = headers.one(b"authorization").partition(" ")
        if scheme.lower() == "bearer" and token:
            return await self._access.by_token(token.strip())
        if session := headers.cookie(COOKIE):
            return await self._access.by_session(session)
        raise Unauthorized()

    def _check_host(self, headers: "_Headers") -> None:
        # A page at evil.example that resolves to 127.0.0.1 sends its own name here; an address cannot be rebound.
        name = host_name(headers.one(b"host"))
        if name not in self._rules.hosts and not _is_address(name):
            raise HostNotAllowed(f"this server is not {name!r}")

    def _check_origin(self, scope: Scope, headers: "_Headers") -> None:
        origin = headers.one(b"origin")
        if not origin or not _changes_state(scope):
            return
        own = urlsplit(origin).netloc.lower() == headers.one(b"host").lower() and origin != "null"
        if not own and origin not in self._rules.origins:
            raise OriginNotAllowed(f"a page of {origin!r} may not do this")

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """`receive` that refuses a body while it comes, so that its size costs no memory."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            return receive
        streamed = scope["path"].startswith(STREAMED_PREFIXES)
        limit = self._rules.streamed_bytes if streamed else self._rules.body_bytes
        return limited(receive, limit, _Headers(scope["headers"]).one(b"content-length"))


def limited(receive: Receive, limit: int, announced: str = "") -> Receive:
    if announced.isdigit() and int(announced) > limit:
        raise TooLarge(f"{announced} bytes are more than the limit of {limit}", limit_bytes=limit)
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise TooLarge(f"the body is longer than {limit} bytes", limit_bytes=limit)
        return message

    return counted


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".").lower()


def known_hosts(names: Iterable[str], urls: Iterable[str]) -> frozenset[str]:
    """Our own names: those given, those of given URLs, and this machine's loopback."""
    of_urls = (urlsplit(url).hostname or "" for url in urls if url)
    return frozenset(name.lower() for name in ("localhost", *names, *of_urls) if name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _changes_state(scope: Scope) -> bool:
    return scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS


class _Headers:
    """Headers by name; a name that must not be ambiguous is refused when it is."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = list(raw)

    def one(self, name: bytes) -> str:
        found = [value for key, value in self._raw if key == name]
        if len(found) > 1:
            raise MalformedRequest(f"the header {name.decode()} is there more than once")
        return found[0].decode("latin-1").strip() if found else ""

    def cookie(self, name: str) -> str:
        for key, value in self._raw:
            if key == b"cookie":
                for part in value.decode("latin-1").split(";"):
                    this, _, content = part.strip().partition("=")
                    if this == name:
                        return content
        return ""
