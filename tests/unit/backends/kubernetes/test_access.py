"""What `backend check` says about a cluster and the token of the backend."""

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.backends.kubernetes.api_server import ApiServer, status


def web_token(claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2lnbmF0dXJl"


async def test_the_check_says_when_the_token_expires() -> None:
    expiry = time.time() + 3600
    backend = ApiServer().backend(token=web_token({"exp": round(expiry), "sub": "anygpu"}))
    checked = await backend.check()
    await backend.close()
    assert checked.valid
    assert (
        f"the token expires at {datetime.fromtimestamp(round(expiry), UTC):%Y-%m-%d %H:%M} UTC"
        in checked.message
    )
    assert "deploy/kubernetes/token.yaml" in checked.message


@pytest.mark.parametrize(
    "token",
    [
        "opaque",
        "a.b.c",
        "..",
        "a.!.c",
        web_token([]),
        web_token({"sub": "anygpu"}),
        web_token({"exp": "soon"}),
        web_token({"exp": 1e300}),
        web_token({"exp": -1}),
    ],
)
async def test_a_token_without_an_expiry_needs_no_words(token: str) -> None:
    backend = ApiServer().backend(token=token)
    checked = await backend.check()
    await backend.close()
    assert checked.valid
    assert "expires" not in checked.message


async def test_a_token_that_is_not_accepted_is_named() -> None:
    backend = ApiServer(lambda request: status(401, "Unauthorized")).backend()
    checked = await backend.check()
    await backend.close()
    assert not checked.valid
    assert "does not accept the credentials" in checked.message
