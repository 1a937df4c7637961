"""Links the server signs."""

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from anygpu.errors import Forbidden
from anygpu.store.blobs.signing import UrlGrant, sign_url, verify_url

SECRET = b"the server's own key"
KEY = "org/lab/jobs/1/attempts/1/chunks/ab"
NOW = 1_763_240_000.0


def opened(
    url: str, method: str = "PUT", /, *, now: float = NOW, secret: bytes = SECRET, **changes: str
) -> UrlGrant:
    parts = urlsplit(url)
    key = unquote(parts.path.removeprefix("/blobs/"))
    query = {**dict(parse_qsl(parts.query)), **changes}
    return verify_url(method, key, query, now=now, secret=secret)


def link(method: Any = "PUT", **options: int) -> str:
    return sign_url("http://127.0.0.1:1", method, KEY, NOW + 60, SECRET, **options)


def test_a_link_has_the_shape_clients_know() -> None:
    url = link(max_size=5)
    assert url.startswith(f"http://127.0.0.1:1/blobs/{KEY}?method=PUT&expires=1763240060&max_size=5&sig=")


def test_without_a_base_the_link_is_relative() -> None:
    assert sign_url("", "GET", KEY, NOW, SECRET).startswith("/blobs/org/")


def test_a_link_grants_what_it_says() -> None:
    assert opened(link(max_size=5)) == UrlGrant(method="PUT", key=KEY, expires_at=1_763_240_060, max_size=5)
    assert opened(link("GET"), "GET").max_size is None


def test_a_link_to_get_is_good_for_head() -> None:
    assert opened(link("GET"), "HEAD").method == "GET"


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "POST", ""])
def test_a_link_to_put_allows_nothing_else(method: str) -> None:
    with pytest.raises(Forbidden):
        opened(link(), method)
    with pytest.raises(Forbidden):
        opened(link(), method, method=method)


@pytest.mark.parametrize(
    "changes",
    [
        {"expires": "1763249999"},
        {"expires": "١٧٦٣٢٤٠٠٦٠"},
        {"expires": "-1"},
        {"expires": "9" * 400},
        {"expires": ""},
        {"max_size": "6"},
        {"max_size": "x"},
        {"sig": ""},
        {"sig": "0" * 64},
        {"sig": "é" * 64},
    ],
)
def test_a_link_that_was_changed_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Forbidden):
        opened(link(max_size=5), **changes)


def test_a_limit_cannot_be_taken_away() -> None:
    url = link(max_size=5).replace("&max_size=5", "")
    with pytest.raises(Forbidden):
        opened(url)


def test_a_link_for_one_key_does_not_open_another() -> None:
    with pytest.raises(Forbidden):
        opened(link().replace("chunks/ab", "chunks/ac"))


def test_another_servers_link_is_refused() -> None:
    with pytest.raises(Forbidden):
        opened(link(), secret=b"another key")


def test_a_link_is_good_until_it_expires_and_not_after() -> None:
    assert opened(link(), now=NOW + 59.9).key == KEY
    with pytest.raises(Forbidden, match="expired"):
        opened(link(), now=NOW + 60)
