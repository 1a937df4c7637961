"""Checks before every API request: host, origin, authentication, rate limit and body size.

Every route requires authentication unless its path is in `PUBLIC_PATHS`, begins with one of `PUBLIC_PREFIXES`, or
belongs to the web app.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anygpu.errors import AnygpuError, Forbidden, RateLimited, TooLarge, Unauthorized
from anygpu.server.http.errors import HostNotAllowed, MalformedRequest, OriginNotAllowed, problem_response
from anygpu.server.http.origins import Origin, is_address, parse_host, parse_origin
from anygpu.server.http.web_app import needs_no_login
from anygpu.tenancy.auth import Authenticator, Caller

SESSION_COOKIE = "anygpu_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Requests with a body that change nothing, so that a viewer may send them.
QUESTION_PATHS = frozenset({"/api/v1/costs/compare", "/api/v1/plan", "/api/v1/spec/render"})
PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/api/v1/openapi.json"})
PUBLIC_PREFIXES = ("/login/", "/blobs/")  # authenticated by a one-time code or a signature
LOGIN_PATHS = frozenset({"/api/v1/login/links", "/api/v1/logout"})  # every role may use a browser
STREAMED_PREFIXES = ("/blobs/", "/api/v1/uploads/", "/api/v1/snapshots/")
MAX_CALLERS = 10_000


class RateLimit:
    """A token bucket for each caller: `per_s` requests a second, and up to `burst` at once.

    Callers that are idle for a long time are forgotten.
    """

    def __init__(self, per_s: float, burst: float, now: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count one request of the caller. Raise RateLimited, with the time to wait, if there were too many."""
        if self._per_s <= 0:
            return
        available = self._available(caller)
        if available < 1:
            wait_s = round((1 - available) / self._per_s, 3)
            raise RateLimited(hint=f"Wait {wait_s} s and try again.", retry_after_s=wait_s)
        self._buckets[caller] = (available - 1, self._now())
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)

    def _available(self, caller: str) -> float:
        available, at = self._buckets.get(caller, (self._burst, self._now()))
        return min(self._burst, available + (self._now() - at) * self._per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The hosts and web origins that are allowed, and the largest request bodies."""

    hosts: frozenset[str]
    origins: frozenset[Origin]
    body_bytes: int
    streamed_bytes: int


class AccessMiddleware:
    """ASGI middleware that checks a request before FastAPI handles it, and stores the authenticated caller."""

    def __init__(
        self,
        app: ASGIApp,
        rules: AccessRules,
        authenticator: Authenticator,
        request_limit: RateLimit,
        failure_limit: RateLimit,
    ) -> None:
        self._app = app
        self._rules = rules
        self._authenticator = authenticator
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
        if is_public(scope["path"]) or needs_no_login(scope):
            return
        caller = await self._authenticate(scope, headers)
        if caller.by_cookie and _changes_state(scope) and not headers.get_single(b"origin"):
            raise OriginNotAllowed(
                "a request that changes data with a session cookie needs the header Origin; send it from the web "
                "app, or use a token"
            )
        if not caller.role.can_write and _needs_writer(scope):
            raise Forbidden(
                f"the role {caller.role} of this token may only read; use a token with the role member, admin or "
                "operator"
            )
        self._request_limit.take(caller.token_id)
        scope.setdefault("state", {})["caller"] = caller

    async def _authenticate(self, scope: Scope, headers: "_Headers") -> Caller:
        scheme, _, token = headers.get_single(b"authorization").partition(" ")
        try:
            if scheme.lower() == "bearer" and token:
                return await self._authenticator.caller_for_token(token.strip())
            if session := headers.cookie(SESSION_COOKIE):
                return await self._authenticator.caller_for_session(session)
        except Unauthorized:
            # Only wrong secrets count, and only after the check: many users can share one address.
            self._failure_limit.take(scope["client"][0] if scope.get("client") else "")
            raise
        raise Unauthorized()

    def _check_host(self, headers: "_Headers") -> None:
        # DNS rebinding: a page of evil.example that resolves to 127.0.0.1 sends its own name. An IP address is safe.
        text = headers.get_single(b"host")
        host = parse_host(text)
        if host is None or (host.name not in self._rules.hosts and not is_address(host.name)):
            raise HostNotAllowed(
                f"The server does not accept requests for the host {text[:100]!r}. Add its name to the setting "
                "server.allowed_hosts."
            )

    def _check_origin(self, scope: Scope, headers: "_Headers") -> None:
        text = headers.get_single(b"origin")
        if not text or not _changes_state(scope):
            return
        origin = parse_origin(text)
        # TLS ends at the proxy, so the server's own origin begins with http; `rules.origins` has the public URL.
        own = parse_origin(f"http://{headers.get_single(b'host')}")
        if origin is None or (origin != own and origin not in self._rules.origins):
            raise OriginNotAllowed(
                f"The server does not accept requests from web pages of {text[:100]!r}. Add it to the setting "
                "server.allowed_origins."
            )

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that checks the size while the body arrives, so that too large a body is never stored."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            return receive
        streamed = scope["path"].startswith(STREAMED_PREFIXES)
        limit = self._rules.streamed_bytes if streamed else self._rules.body_bytes
        return limit_body(receive, limit, _Headers(scope["headers"]).get_single(b"content-length"))


def limit_body(receive: Receive, limit: int, content_length: str = "") -> Receive:
    if content_length.isdigit() and int(content_length) > limit:
        raise TooLarge(
            f"the body of the request has {content_length} bytes, and the limit is {limit} bytes; send less, "
            "or ask the operator to raise the limit (settings `limits`)",
            limit_bytes=limit,
        )
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise TooLarge(
                f"the body of the request has more than {limit} bytes, which is the limit; send less, or ask the "
                "operator to raise it (settings `limits`)",
                limit_bytes=limit,
            )
        return message

    return receive_limited


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES)


def _needs_writer(scope: Scope) -> bool:
    if scope["path"] in LOGIN_PATHS or scope["path"] in QUESTION_PATHS:
        return False
    return scope["type"] == "http" and _changes_state(scope)


def _changes_state(scope: Scope) -> bool:
    return scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS


class _Headers:
    """Request headers by name. Reading a header that must be unique raises if it occurs twice."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = list(raw)

    def get_single(self, name: bytes) -> str:
        values = [value for key, value in self._raw if key == name]
        if len(values) > 1:
            raise MalformedRequest(f"the request has the header {name.decode()} more than once; send it once")
        return values[0].decode("latin-1").strip() if values else ""

    def cookie(self, name: str) -> str:
        for key, value in self._raw:
            if key == b"cookie":
                for part in value.decode("latin-1").split(";"):
                    key_part, _, content = part.strip().partition("=")
                    if key_part == name:
                        return content
        return ""
