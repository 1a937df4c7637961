"""What passes the gate, and what a web page elsewhere cannot do."""

import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.types import Message, Receive, Send

from anygpu.errors import NotFound
from anygpu.server.http.middleware import (
    SESSION_COOKIE,
    AccessMiddleware,
    AccessRules,
    RateLimit,
    accepted_hosts,
    host_name,
)
from anygpu.store.scope import Scope
from anygpu.store.sql.tokens import Token
from anygpu.tenancy.auth import Authenticator, Caller, Role
from anygpu.testing.samples.jobs import LAB

RULES = AccessRules(
    hosts=accepted_hosts(["gpu-box"], ["https://train.example"]),
    origins=frozenset({"https://page.example"}),
    body_bytes=100,
    streamed_bytes=1000,
)


class Tokens:
    """Tokens in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, Token] = {}

    async def make(
        self,
        scope: Scope,
        *,
        role: str,
        label: str = "",
        at_ms: int,
        expires_at_ms: int | None = None,
        token: str | None = None,
    ) -> tuple[str, Token]:
        text = token or f"secret-{len(self.kept)}"
        made = Token(
            id=f"id-{len(self.kept)}",
            scope=scope,
            role=role,
            label=label,
            created_at_ms=at_ms,
            used_at_ms=None,
            expires_at_ms=expires_at_ms,
        )
        self.kept[text] = made
        return text, made

    async def look_up(self, token: str, *, at_ms: int) -> Token | None:
        return self.kept.get(token)

    async def list(self, scope: Scope) -> list[Token]:
        return [token for token in self.kept.values() if token.scope == scope]

    async def revoke(self, scope: Scope, token_id: str) -> None:
        kept = {text: token for text, token in self.kept.items() if token.id != token_id}
        if len(kept) == len(self.kept):
            raise NotFound(token_id)
        self.kept = kept


class Door:
    """A gate before a small application that reads the body and says who asked."""

    def __init__(self, now: list[float] | None = None, requests: RateLimit | None = None) -> None:
        self.time = now or [0.0]
        self.access = Authenticator(Tokens(), lambda: int(self.time[0] * 1000))
        unlimited = RateLimit(0, 1, self._now)
        self.caller: Caller | None = None
        self.gate = AccessMiddleware(
            self._app, RULES, self.access, requests or unlimited, RateLimit(0.5, 3, self._now)
        )

    def _now(self) -> float:
        return self.time[0]

    async def token(self, role: Role = Role.ADMIN) -> str:
        return (await self.access.create_token(LAB, role))[1]

    async def _app(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.caller = scope.get("state", {}).get("caller")
        while scope["type"] == "http" and (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def ask(
        self,
        method: str = "GET",
        path: str = "/api/v1/training",
        *,
        body: list[bytes] | None = None,
        **headers: str,
    ) -> tuple[int, dict[str, Any]]:
        headers.setdefault("host", "127.0.0.1:7791")
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return await self._run({"type": "http", "method": method}, path, raw, body or [])

    async def connect(self, **headers: str) -> tuple[int, dict[str, Any]]:
        headers.setdefault("host", "127.0.0.1:7791")
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return await self._run({"type": "websocket"}, "/api/v1/stream", raw, [])

    async def _run(
        self, start: dict[str, Any], path: str, raw: list[tuple[bytes, bytes]], body: list[bytes]
    ) -> tuple[int, dict[str, Any]]:
        sent: list[Message] = []
        parts = [{"type": "http.request", "body": part, "more_body": True} for part in body]
        parts.append({"type": "http.request", "body": b"", "more_body": False})

        async def receive() -> Message:
            return parts.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {**start, "path": path, "headers": raw, "client": ("127.0.0.1", 5), "query_string": b""}
        await self.gate(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"] or b"{}")


async def test_nobody_passes_without_a_token() -> None:
    door = Door()
    status, body = await door.ask()
    assert (status, body["code"]) == (401, "unauthorized")
    assert (await door.ask(authorization="Bearer wrong"))[0] == 401
    assert (await door.ask(authorization="Basic " + await door.token()))[0] == 401


async def test_a_token_says_who_asks() -> None:
    door = Door()
    assert (await door.ask(authorization=f"Bearer {await door.token()}"))[0] == 200
    assert door.caller is not None
    assert door.caller.scope == LAB


@pytest.mark.parametrize("path", ["/healthz", "/login/x", "/blobs/k"])
async def test_open_paths_need_no_token(path: str) -> None:
    assert (await Door().ask(path=path))[0] == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1:1", "localhost", "[::1]:7791", "gpu-box:80", "train.example", "10.0.0.7"]
)
async def test_our_own_names_and_addresses_are_hosts(host: str) -> None:
    assert (await Door().ask(path="/healthz", host=host))[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7791", "127.0.0.1.evil.example", ""])
async def test_a_rebound_name_is_refused_even_with_a_token(host: str) -> None:
    door = Door()
    status, body = await door.ask(authorization=f"Bearer {await door.token()}", host=host)
    assert (status, body["code"]) == (421, "host_not_allowed")


async def test_another_origin_changes_nothing() -> None:
    door = Door()
    token = f"Bearer {await door.token()}"
    for origin in ("https://evil.example", "null", "http://localhost:3000"):
        assert (await door.ask("POST", authorization=token, origin=origin))[0] == 403
        assert (await door.connect(authorization=token, origin=origin))[0] == 403
    assert (await door.ask("POST", authorization=token, origin="http://127.0.0.1:7791"))[0] == 200
    assert (await door.ask("POST", authorization=token, origin="https://page.example"))[0] == 200


async def test_a_cookie_changes_state_only_with_its_own_origin() -> None:
    door = Door()
    caller = Caller(scope=LAB, role=Role.MEMBER, token_id="t")
    session = await door.access.redeem_login_code(await door.access.create_login_code(caller))
    cookie = f"other=1; {SESSION_COOKIE}={session}"
    assert (await door.ask(cookie=cookie))[0] == 200
    assert (await door.ask("POST", cookie=cookie))[0] == 403
    assert (await door.connect(cookie=cookie))[0] == 403
    assert (await door.ask("POST", cookie=cookie, origin="http://127.0.0.1:7791"))[0] == 200


async def test_a_session_is_not_a_token_and_a_token_no_session() -> None:
    door = Door()
    session = await door.access.redeem_login_code(
        await door.access.create_login_code(Caller(scope=LAB, role=Role.ADMIN, token_id="t"))
    )
    assert (await door.ask(authorization=f"Bearer {session}"))[0] == 401
    assert (await door.ask(cookie=f"{SESSION_COOKIE}={await door.token()}"))[0] == 401


async def test_a_login_link_works_once_and_for_a_minute() -> None:
    door = Door()
    caller = Caller(scope=LAB, role=Role.ADMIN, token_id="t")
    code = await door.access.create_login_code(caller)
    await door.access.redeem_login_code(code)
    with pytest.raises(Exception, match="token"):
        await door.access.redeem_login_code(code)
    late = await door.access.create_login_code(caller)
    door.time[0] += 61
    with pytest.raises(Exception, match="token"):
        await door.access.redeem_login_code(late)


async def test_a_viewer_only_looks() -> None:
    door = Door()
    token = f"Bearer {await door.token(Role.VIEWER)}"
    assert (await door.ask(authorization=token))[0] == 200
    assert (await door.ask("POST", authorization=token))[0] == 403


async def test_a_revoked_token_stops_at_once() -> None:
    door = Door()
    record, token = await door.access.create_token(LAB, Role.MEMBER)
    assert (await door.ask(authorization=f"Bearer {token}"))[0] == 200
    await door.access.revoke_token(LAB, record.id)
    assert (await door.ask(authorization=f"Bearer {token}"))[0] == 401


async def test_a_body_is_refused_by_its_announcement_or_while_it_comes() -> None:
    door = Door()
    token = f"Bearer {await door.token()}"
    assert (await door.ask("POST", authorization=token, content_length="101"))[0] == 413
    status, body = await door.ask("POST", authorization=token, body=[b"x" * 60, b"x" * 60])
    assert (status, body["limit_bytes"]) == (413, 100)
    many = [b"x" * 60, b"x" * 60]
    assert (await door.ask("PUT", "/api/v1/uploads/abc", authorization=token, body=many))[0] == 200


async def test_wrong_tokens_are_limited_by_address_and_right_ones_by_token() -> None:
    door = Door()
    assert [(await door.ask(authorization="Bearer no"))[0] for _ in range(4)] == [401, 401, 401, 429]
    door.time[0] += 10
    assert (await door.ask(authorization="Bearer no"))[0] == 401


async def test_a_header_that_must_be_one_is_refused_when_there_are_two() -> None:
    door = Door()
    raw = [(b"host", b"127.0.0.1"), (b"host", b"evil.example")]
    status, _ = await door._run({"type": "http", "method": "GET"}, "/healthz", raw, [])
    assert status == 400


def test_a_host_is_read_without_its_port() -> None:
    assert [host_name(text) for text in ("A:1", "[::1]:2", "a.", "")] == ["a", "[::1]", "a", ""]


def test_a_bucket_refills_with_time() -> None:
    now = [0.0]
    limit = RateLimit(2, 2, lambda: now[0])
    limit.take("a")
    limit.take("a")
    with pytest.raises(Exception, match="Too many"):
        limit.take("a")
    limit.take("b")
    now[0] += 0.5
    limit.take("a")
