"""A relay in object storage, with signatures that are checked."""

import asyncio
import time
import urllib.error
import urllib.request
import uuid

import pytest

from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.relay import RelayAddress
from anygpu.backends.relay.storage import FOLDER, StorageRelay
from anygpu.store.blobs.contract import UPLOAD_HEADERS, Blobs
from anygpu.store.blobs.factory import open_blobs
from anygpu.testing.contracts.relay import NAME, OTHER, WAIT_S, EchoServer, RelayAgent, RelayContract


@pytest.fixture
def blobs(s3: dict[str, object]) -> Blobs:
    return open_blobs(f"s3://anygpu/tests/{uuid.uuid4().hex}", options=s3)


@pytest.fixture
def relay(blobs: Blobs) -> StorageRelay:
    return StorageRelay(blobs)


def status_of(method: str, url: str, body: bytes | None = None) -> int:
    request = urllib.request.Request(
        url, method=method, data=body, headers=UPLOAD_HEADERS if method == "PUT" else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            status: int = response.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


class SignedMailboxes:
    """What an agent, or a job that reads its URLs, cannot do with them."""

    async def test_an_expired_url_writes_nothing(self, blobs: Blobs) -> None:
        relay = StorageRelay(blobs, url_life_s=1)
        [ticket] = await relay.open(NAME)
        await asyncio.sleep(2.5)
        with pytest.raises(Unreachable, match="expired"):
            await RelayAgent(ticket).ask("/late")
        assert not (await relay.versions({NAME: 1})).get(NAME)

    async def test_a_url_allows_nothing_but_its_own_operation(
        self, relay: StorageRelay, blobs: Blobs
    ) -> None:
        [ticket] = await relay.open(NAME)
        [other] = await relay.open(OTHER)
        mine, theirs = ticket["channels"][0], other["channels"][0]
        await blobs.put(f"{FOLDER}/{OTHER}/0-0.answer", b"secret")
        forged = mine["request"].replace(NAME, OTHER)
        assert await asyncio.to_thread(status_of, "PUT", forged, b"forged") == 403
        assert await asyncio.to_thread(status_of, "GET", mine["answer"].replace(NAME, OTHER)) == 403
        assert await asyncio.to_thread(status_of, "PUT", mine["answer"], b"forged") == 403
        assert await asyncio.to_thread(status_of, "GET", mine["request"]) == 403
        assert await asyncio.to_thread(status_of, "DELETE", mine["request"]) == 403
        assert not (await relay.versions({NAME: 1, OTHER: 1}))
        assert await asyncio.to_thread(status_of, "GET", theirs["answer"]) == 200


class TestS3Relay(RelayContract, SignedMailboxes):
    """Keeps the promises of every relay."""


class TestAzureRelay(RelayContract, SignedMailboxes):
    """Keeps the promises of every relay."""

    @pytest.fixture
    def blobs(self, azure: dict[str, object]) -> Blobs:
        return open_blobs(f"az://anygpu/tests/{uuid.uuid4().hex}", options=azure)


class TestGCSRelay(RelayContract, SignedMailboxes):
    """Keeps the promises of every relay."""

    @pytest.fixture
    def blobs(self, gcs: dict[str, object]) -> Blobs:
        return open_blobs(f"gs://anygpu/tests/{uuid.uuid4().hex}", options=gcs)


@pytest.mark.extended
async def test_urls_are_renewed_before_they_expire(blobs: Blobs) -> None:
    life_s, ahead_s = 3600.0, 0.0
    relay = StorageRelay(blobs, url_life_s=life_s, now_s=lambda: time.time() + ahead_s)
    [ticket] = await StorageRelay(blobs, url_life_s=30).open(NAME)
    agent = RelayAgent(ticket)
    async with EchoServer(relay).running(NAME):
        assert await agent.ask("/first") == b"/first "
        assert len(agent.renewed) == 1
        end = time.monotonic() + 90
        while status_of("GET", ticket["channels"][0]["answer"]) != 403:
            assert time.monotonic() < end, "the first URLs do not expire"
            await asyncio.sleep(1)
        assert await agent.ask("/second") == b"/second "
        ahead_s = life_s * 0.4
        assert await agent.ask("/third") == b"/third "
        assert len(agent.renewed) == 1
        ahead_s = life_s * 0.6
        assert await agent.ask("/fourth") == b"/fourth "
        assert len(agent.renewed) == 2


async def test_renewed_urls_are_used_although_they_cannot_be_stored(blobs: Blobs) -> None:
    def fail(ticket: object) -> None:
        raise OSError("no space left on device")

    relay = StorageRelay(blobs, url_life_s=3600)
    [ticket] = await relay.open(NAME)
    address = RelayAddress({**ticket, "expires_at": 1}, 0, fail)
    async with EchoServer(relay).running(NAME):
        for path in ("/a", "/b"):
            response = await asyncio.to_thread(address.connect().request, "POST", path, {}, b"", WAIT_S)
            assert response.body() == f"{path} ".encode()


async def test_the_number_of_objects_does_not_grow(relay: StorageRelay, blobs: Blobs) -> None:
    [ticket] = await relay.open(NAME)
    agent = RelayAgent(ticket)
    async with EchoServer(relay).running(NAME):
        for number in range(10):
            await agent.ask(f"/{number}")
            assert len([info async for info in blobs.list(FOLDER)]) <= 2
