"""Tests of the signed URLs of every blob store, over real HTTP.

Tests of a store provide the fixture `blobs`.
"""

import asyncio
import http.client
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import pytest

from anygpu.store.blobs.contract import UPLOAD_HEADERS, Blobs

KEYS = ["chunks/one", "Org_1/jobs/0198f-3.c~2/-chunk"]
MIB = 1024 * 1024


class SignedUrlsContract:
    """Tests that a signed URL allows exactly one operation on one key, until the URL expires."""

    @pytest.mark.parametrize("key", KEYS)
    async def test_a_signed_get_gives_the_bytes(self, blobs: Blobs, key: str) -> None:
        await blobs.put(key, b"hello")
        assert await fetch("GET", await blobs.sign("GET", key, expires_s=60)) == (200, b"hello")

    @pytest.mark.parametrize("key", KEYS)
    async def test_a_signed_put_stores_the_bytes(self, blobs: Blobs, key: str) -> None:
        status, _ = await fetch("PUT", await blobs.sign("PUT", key, expires_s=60, max_size=100), b"hello")
        assert status in (200, 201)
        assert await blobs.get(key) == b"hello"

    async def test_a_signed_put_takes_a_large_chunk(self, blobs: Blobs) -> None:
        url = await blobs.sign("PUT", "large", expires_s=60, max_size=40 * MIB)
        assert (await fetch("PUT", url, b"x" * (40 * MIB)))[0] in (200, 201)
        info = await blobs.head("large")
        assert info is not None
        assert info.size == 40 * MIB

    async def test_a_get_that_finds_nothing_is_404(self, blobs: Blobs) -> None:
        assert (await fetch("GET", await blobs.sign("GET", "nothing", expires_s=60)))[0] == 404

    async def test_a_url_that_was_changed_is_refused(self, blobs: Blobs) -> None:
        await blobs.put("mine", b"hello")
        url = await blobs.sign("GET", "mine", expires_s=60)
        for changed in (with_other_signature(url), with_later_expiry(url)):
            assert changed != url
            assert await is_refused("GET", changed)

    async def test_a_url_for_one_key_does_not_open_another(self, blobs: Blobs) -> None:
        await blobs.put("mine", b"hello")
        await blobs.put("yours", b"secret")
        url = await blobs.sign("GET", "mine", expires_s=60)
        assert await is_refused("GET", url.replace("/mine", "/yours"))

    async def test_a_url_to_get_cannot_put_and_one_to_put_cannot_get(self, blobs: Blobs) -> None:
        await blobs.put("mine", b"hello")
        assert await is_refused("PUT", await blobs.sign("GET", "mine", expires_s=60), b"changed")
        assert await is_refused("GET", await blobs.sign("PUT", "mine", expires_s=60))
        assert await blobs.get("mine") == b"hello"

    async def test_a_url_expires(self, blobs: Blobs) -> None:
        await blobs.put("mine", b"hello")
        to_get = await blobs.sign("GET", "mine", expires_s=1)
        to_put = await blobs.sign("PUT", "mine", expires_s=1)
        await asyncio.sleep(2.1)
        assert await is_refused("GET", to_get)
        assert await is_refused("PUT", to_put, b"changed")
        assert await blobs.get("mine") == b"hello"


class PrivateBlobsContract:
    """Tests that requests without a signature are rejected. Not used for LocalStack, which accepts them."""

    async def test_without_a_signature_nothing_is_given_or_taken(self, blobs: Blobs) -> None:
        await blobs.put("mine", b"hello")
        url = without_query(await blobs.sign("GET", "mine", expires_s=60))
        assert await is_refused("GET", url)
        assert await is_refused("PUT", url, b"changed")
        assert await blobs.get("mine") == b"hello"


async def fetch(method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
    return await asyncio.to_thread(_fetch, method, url, body)


async def is_refused(method: str, url: str, body: bytes | None = None) -> bool:
    status, _ = await fetch(method, url, body)
    return status in (400, 401, 403, 404)  # Azurite answers 404 for a blob that may not be read


def _fetch(method: str, url: str, body: bytes | None) -> tuple[int, bytes]:
    parts = urlsplit(url)
    assert parts.hostname == "127.0.0.1", (
        f"the tests call only 127.0.0.1, but the URL is for {parts.hostname}"
    )
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
    try:
        headers = UPLOAD_HEADERS if method == "PUT" else {}
        connection.request(method, f"{parts.path}?{parts.query}", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def with_other_signature(url: str) -> str:
    return _with_query(url, lambda name, value: flip_last_character(value) if is_signature(name) else value)


def with_later_expiry(url: str) -> str:
    return _with_query(url, lambda name, value: later(value) if is_expiry(name) else value)


def without_query(url: str) -> str:
    return url.partition("?")[0]


def is_signature(name: str) -> bool:
    return name.lower() in ("sig", "x-amz-signature", "x-goog-signature")


def is_expiry(name: str) -> bool:
    return name.lower() in ("expires", "x-amz-expires", "x-goog-expires", "se")


def flip_last_character(value: str) -> str:
    return ("1" if value[0] == "0" else "0") + value[1:]


def later(value: str) -> str:
    return str(int(value) + 60) if value.isdigit() else value.replace(value[:2], "21", 1)


def _with_query(url: str, change: Callable[[str, str], str]) -> str:
    parts = urlsplit(url)
    query = [(name, change(name, value)) for name, value in parse_qsl(parts.query, keep_blank_values=True)]
    return urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))
