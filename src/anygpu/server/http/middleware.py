"""Checks before every API request: host, origin, authentication, rate limit and body size.

Every route requires authentication unless its path is listed in `PUBLIC_PATHS` or `PUBLIC_PREFIXES`."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anygpu.errors import AnygpuError, Forbidden, RateLimited, TooLarge, Unauthorized
from anygpu.server.http.errors import HostNotAllowed, MalformedRequest, OriginNotAllowed, problem_response
from anygpu.tenancy.auth import Authenticator, Caller

MAX_CALLERS = 10_000


class RateLimit:
    """`per_s` requests a second for each caller, `burst` at once. Callers not seen for long are forgotten."""

    def __init__(self, per_s: float, burst: float, now: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """RateLimited, with the seconds to wait, when the caller's bucket is empty."""
        if self._per_s <= 0:
            return
        left = self._available(caller)
        if left < 1:
            wait_s = round((1 - left) / self._per_s, 3)
            raise RateLimited(hint=f"Wait {wait_s} s and try again.", retry_after_s=wait_s)
        self._buckets[caller] = (left - 1, self._now())
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)

    def is_exhausted(self, caller: str) -> bool:
        return self._per_s > 0 and self._available(caller) < 1

    def _available(self, caller: str) -> float:
        left, at = self._buckets.get(caller, (self._burst, self._now()))
        return min(self._burst, left + (self._now() - at) * self._per_s)


SESSION_COOKIE = "anygpu_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/api/v1/openapi.json"})
PUBLIC_PREFIXES = ("/login/", "/blobs/")  # each carries its own proof: a one-time code, a signature
STREAMED_PREFIXES = ("/blobs/", "/api/v1/uploads/")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """Which hosts we are, which web origins may act, and how large a body may be."""

    hosts: frozenset[str]
    origins: frozenset[str]
    body_bytes: int
    streamed_bytes: int


class AccessMiddleware:
    """Pure ASGI, before the framework."""

    def __init__(
        self,
        app: ASGIApp,
        rules: AccessRules,
        access: Authenticator,
        request_limit: RateLimit,
        failure_limit: RateLimit,
    ) -> None:
        self._app = app
        self._rules = rules
        self._authenticator = access
        self._request_limit = request_limit
        self._failure_limit = failure_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            await self._check_access(scope)
            await self._app(scope, self._limit_body(scope, receive), send)
        except AnygpuError as error:
            await problem_response(error)(scope, receive, send)

    async def _check_access(self, scope: Scope) -> None:
        headers = _Headers(scope["headers"])
        self._check_host(headers)
        self._check_origin(scope, headers)
        if is_public(scope["path"]):
            return
        caller = await self._authenticate(scope, headers)
        if caller.by_cookie and _changes_state(scope) and not headers.get_single(b"origin"):
            raise OriginNotAllowed("a request with a session cookie must name its Origin")
        if not caller.role.can_write and scope["type"] == "http" and _changes_state(scope):
            raise Forbidden(f"the role {caller.role} may only look")
        self._request_limit.take(caller.token_id)
        scope.setdefault("state", {})["caller"] = caller

    async def _authenticate(self, scope: Scope, headers: "_Headers") -> Caller:
        address = scope["client"][0] if scope.get("client") else ""
        if self._failure_limit.is_exhausted(address):
            self._failure_limit.take(address)
        try:
            return await self._find_caller(headers)
        except Unauthorized:
            self._failure_limit.take(address)
            raise

    async def _find_caller(self, headers: "_Headers") -> Caller:
        scheme, _, token = headers.get_single(b"authorization").partition(" ")
        if scheme.lower() == "bearer" and token:
            return await self._authenticator.caller_for_token(token.strip())
        if session := headers.cookie(SESSION_COOKIE):
            return await self._authenticator.caller_for_session(session)
        raise Unauthorized()

    def _check_host(self, headers: "_Headers") -> None:
        # A page at evil.example that resolves to 127.0.0.1 sends its own name here; an address cannot be rebound.
        name = host_name(headers.get_single(b"host"))
        if name not in self._rules.hosts and not _is_address(name):
            raise HostNotAllowed(f"this server is not {name!r}")

    def _check_origin(self, scope: Scope, headers: "_Headers") -> None:
        origin = headers.get_single(b"origin")
        if not origin or not _changes_state(scope):
            return
        own = urlsplit(origin).netloc.lower() == headers.get_single(b"host").lower() and origin != "null"
        if not own and origin not in self._rules.origins:
            raise OriginNotAllowed(f"a page of {origin!r} may not do this")

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """`receive` that refuses a body while it comes, so that its size costs no memory."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            return receive
        streamed = scope["path"].startswith(STREAMED_PREFIXES)
        limit = self._rules.streamed_bytes if streamed else self._rules.body_bytes
        return limit_body(receive, limit, _Headers(scope["headers"]).get_single(b"content-length"))


def limit_body(receive: Receive, limit: int, announced: str = "") -> Receive:
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


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".").lower()


def accepted_hosts(names: Iterable[str], urls: Iterable[str]) -> frozenset[str]:
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

    def get_single(self, name: bytes) -> str:
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
