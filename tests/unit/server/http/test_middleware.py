"""The access middleware: hosts, origins, authentication, limits."""

import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.types import Message, Receive, Send
from tests.unit.tenancy.memory_tokens import MemoryTokens

from anygpu.server.http.middleware import (
    SESSION_COOKIE,
    AccessMiddleware,
    AccessRules,
    RateLimit,
)
from anygpu.server.http.origins import Origin, accepted_hosts
from anygpu.tenancy.auth import Authenticator, Caller, Role
from anygpu.testing.samples.jobs import LAB

RULES = AccessRules(
    hosts=accepted_hosts(["gpu-box"], [Origin("https", "train.example", 443)]),
    origins=frozenset({Origin("https", "page.example", 443)}),
    body_bytes=100,
    streamed_bytes=1000,
)


class GuardedApp:
    """The access middleware before a small application that reads the body and notes the caller."""

    def __init__(self, now: list[float] | None = None, requests: RateLimit | None = None) -> None:
        self.time = now or [0.0]
        self.authenticator = Authenticator(MemoryTokens(), lambda: int(self.time[0] * 1000))
        unlimited = RateLimit(0, 1, self._now)
        self.caller: Caller | None = None
        self.middleware = AccessMiddleware(
            self._app, RULES, self.authenticator, requests or unlimited, RateLimit(0.5, 3, self._now)
        )

    def _now(self) -> float:
        return self.time[0]

    async def token(self, role: Role = Role.ADMIN) -> str:
        return (await self.authenticator.create_token(LAB, role))[1]

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
        await self.middleware(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"] or b"{}")


async def test_a_request_without_a_token_is_refused() -> None:
    app = GuardedApp()
    status, body = await app.ask()
    assert (status, body["code"]) == (401, "unauthorized")
    assert (await app.ask(authorization="Bearer wrong"))[0] == 401
    assert (await app.ask(authorization="Basic " + await app.token()))[0] == 401


async def test_a_token_identifies_the_caller() -> None:
    app = GuardedApp()
    assert (await app.ask(authorization=f"Bearer {await app.token()}"))[0] == 200
    assert app.caller is not None
    assert app.caller.scope == LAB


@pytest.mark.parametrize("path", ["/healthz", "/login/x", "/blobs/k"])
async def test_public_paths_need_no_token(path: str) -> None:
    assert (await GuardedApp().ask(path=path))[0] == 200


@pytest.mark.parametrize(
    "host", ["127.0.0.1:1", "localhost", "[::1]:7791", "gpu-box:80", "train.example", "10.0.0.7"]
)
async def test_configured_names_and_ip_addresses_are_accepted_hosts(host: str) -> None:
    assert (await GuardedApp().ask(path="/healthz", host=host))[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7791",
        "127.0.0.1.evil.example",
        "",
        "[",
        "127.0.0.1:1@evil",
        "127.0.0.1:70000",
    ],
)
async def test_another_host_name_is_refused_even_with_a_token(host: str) -> None:
    app = GuardedApp()
    status, body = await app.ask(authorization=f"Bearer {await app.token()}", host=host)
    assert (status, body["code"]) == (421, "host_not_allowed")


async def test_another_origin_may_not_change_state() -> None:
    app = GuardedApp()
    token = f"Bearer {await app.token()}"
    for origin in (
        "https://evil.example",
        "null",
        "http://localhost:3000",
        "http://[",
        "http://]",
        "https://127.0.0.1:7791",
        "ftp://127.0.0.1:7791",
        "//127.0.0.1:7791",
        "http://127.0.0.1",
        "http://page.example",
        "http://127.0.0.1:7791/path",
    ):
        assert (await app.ask("POST", authorization=token, origin=origin))[0] == 403
        assert (await app.connect(authorization=token, origin=origin))[0] == 403
    assert (await app.ask("POST", authorization=token, origin="http://127.0.0.1:7791"))[0] == 200
    assert (await app.ask("POST", authorization=token, origin="https://page.example"))[0] == 200
    assert (await app.ask("POST", authorization=token, origin="https://page.example:443"))[0] == 200
    assert (await app.ask("POST", authorization=token, host="[::1]", origin="http://[::1]:80"))[0] == 200


async def test_a_cookie_changes_state_only_with_an_allowed_origin() -> None:
    app = GuardedApp()
    caller = await app.authenticator.caller_for_token(await app.token(Role.MEMBER))
    session = await app.authenticator.redeem_login_code(await app.authenticator.create_login_code(caller))
    cookie = f"other=1; {SESSION_COOKIE}={session}"
    assert (await app.ask(cookie=cookie))[0] == 200
    assert (await app.ask("POST", cookie=cookie))[0] == 403
    assert (await app.connect(cookie=cookie))[0] == 403
    assert (await app.ask("POST", cookie=cookie, origin="http://127.0.0.1:7791"))[0] == 200


async def test_a_session_is_not_accepted_as_a_token_nor_a_token_as_a_session() -> None:
    app = GuardedApp()
    session = await app.authenticator.redeem_login_code(
        await app.authenticator.create_login_code(
            await app.authenticator.caller_for_token(await app.token(Role.ADMIN))
        )
    )
    assert (await app.ask(authorization=f"Bearer {session}"))[0] == 401
    assert (await app.ask(cookie=f"{SESSION_COOKIE}={await app.token()}"))[0] == 401


async def test_a_viewer_is_read_only() -> None:
    app = GuardedApp()
    token = f"Bearer {await app.token(Role.VIEWER)}"
    assert (await app.ask(authorization=token))[0] == 200
    assert (await app.ask("POST", authorization=token))[0] == 403


async def test_a_revoked_token_is_refused_at_once() -> None:
    app = GuardedApp()
    record, token = await app.authenticator.create_token(LAB, Role.MEMBER)
    assert (await app.ask(authorization=f"Bearer {token}"))[0] == 200
    await app.authenticator.revoke_token(Caller(scope=LAB, role=Role.ADMIN, token_id="t"), record.id)
    assert (await app.ask(authorization=f"Bearer {token}"))[0] == 401


async def test_a_large_body_is_refused_by_its_length_header_or_while_it_is_received() -> None:
    app = GuardedApp()
    token = f"Bearer {await app.token()}"
    assert (await app.ask("POST", authorization=token, content_length="101"))[0] == 413
    status, body = await app.ask("POST", authorization=token, body=[b"x" * 60, b"x" * 60])
    assert (status, body["limit_bytes"]) == (413, 100)
    many = [b"x" * 60, b"x" * 60]
    assert (await app.ask("PUT", "/api/v1/uploads/abc", authorization=token, body=many))[0] == 200


async def test_failed_logins_are_limited_by_address_and_requests_by_token() -> None:
    app = GuardedApp()
    assert [(await app.ask(authorization="Bearer no"))[0] for _ in range(4)] == [401, 401, 401, 429]
    app.time[0] += 10
    assert (await app.ask(authorization="Bearer no"))[0] == 401


async def test_a_valid_token_is_not_limited_by_the_wrong_tokens_of_others() -> None:
    app = GuardedApp()
    valid = f"Bearer {await app.token()}"
    assert (await app.ask(authorization=valid))[0] == 200
    assert {(await app.ask(authorization="Bearer no"))[0] for _ in range(10)} == {401, 429}
    assert (await app.ask(authorization=valid))[0] == 200


async def test_a_request_without_a_token_is_not_a_wrong_token() -> None:
    app = GuardedApp()
    assert {(await app.ask())[0] for _ in range(10)} == {401}
    assert (await app.ask(authorization="Bearer no"))[0] == 401


async def test_a_unique_header_that_occurs_twice_is_refused() -> None:
    app = GuardedApp()
    raw = [(b"host", b"127.0.0.1"), (b"host", b"evil.example")]
    status, _ = await app._run({"type": "http", "method": "GET"}, "/healthz", raw, [])
    assert status == 400


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
