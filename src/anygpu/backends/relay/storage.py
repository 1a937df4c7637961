"""Mailboxes in object storage. Agents get signed URLs: PUT for their requests, and GET for the answers to them.

The keys are `relay/<attempt>/<channel>.<kind>`, so one listing of the folder finds the requests of all attempts.
"""

import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

from anygpu.agent.link.mailbox import ANSWER, REQUEST, channel_names
from anygpu.backends.relay.contract import MailboxFile, RelayTicket
from anygpu.errors import BlobMissing
from anygpu.store.blobs.contract import UPLOAD_HEADERS, BlobInfo, Blobs
from anygpu.store.blobs.keys import require_safe_name

FOLDER = "relay"
POLL_S = 1.0
URL_LIFE_S = 6 * 86_400.0  # providers allow at most seven days; a job may wait in a queue for that long


class StorageRelay:
    """Mailboxes in the bucket of the blob store. URLs are renewed when half of their life is over."""

    def __init__(
        self,
        blobs: Blobs,
        *,
        poll_s: float = POLL_S,
        url_life_s: float = URL_LIFE_S,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.poll_s = self.busy_poll_s = poll_s  # each listing costs money
        self._blobs = blobs
        self._url_life_s = url_life_s
        self._now_s = now_s

    async def open(self, mailbox: str, *, nodes: int = 1) -> Sequence[RelayTicket]:
        return [await self._ticket(mailbox, node) for node in range(nodes)]

    async def versions(self, mailboxes: Mapping[str, int]) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = defaultdict(dict)
        async for info in self._blobs.list(f"{FOLDER}/"):
            mailbox, channel, kind = _split_key(info.key)
            if mailbox in mailboxes and kind == REQUEST:
                found[mailbox][channel] = f"{info.etag}-{info.modified_ms}-{info.size}"
        return found

    async def read(self, file: MailboxFile) -> AsyncGenerator[bytes, None]:
        try:
            async for piece in self._blobs.stream(_key(file)):
                yield piece
        except BlobMissing:
            return

    async def write(self, file: MailboxFile, pieces: AsyncIterator[bytes]) -> None:
        await self._blobs.put(_key(file), b"".join([piece async for piece in pieces]))

    async def renew(self, mailbox: str, node: int, expires_at: float) -> RelayTicket | None:
        if expires_at - self._now_s() > self._url_life_s / 2:
            return None
        return await self._ticket(mailbox, node)

    async def mailboxes(self) -> Sequence[str]:
        return sorted({_split_key(info.key)[0] async for info in self._blobs.list(f"{FOLDER}/")})

    async def remove(self, mailbox: str) -> None:
        infos: list[BlobInfo] = [info async for info in self._blobs.list(f"{FOLDER}/{mailbox}/")]
        for info in infos:
            await self._blobs.delete(info.key)

    async def _ticket(self, mailbox: str, node: int) -> RelayTicket:
        expires_at = self._now_s() + self._url_life_s
        return {
            "kind": "storage",
            "channels": [await self._urls(mailbox, channel) for channel in channel_names(node)],
            "headers": UPLOAD_HEADERS,
            "expires_at": int(expires_at),
            "poll_s": self.poll_s,
        }

    async def _urls(self, mailbox: str, channel: str) -> dict[str, str]:
        request, answer = MailboxFile(mailbox, channel, REQUEST), MailboxFile(mailbox, channel, ANSWER)
        return {
            REQUEST: await self._blobs.sign("PUT", _key(request), expires_s=self._url_life_s),
            ANSWER: await self._blobs.sign("GET", _key(answer), expires_s=self._url_life_s),
        }


def _key(file: MailboxFile) -> str:
    return f"{FOLDER}/{require_safe_name(file.mailbox)}/{file.name}"


def _split_key(key: str) -> tuple[str, str, str]:
    """Return mailbox, channel and kind of a key."""
    _, mailbox, name = f"{key}//".split("/", 2)[:3]
    channel, _, kind = name.rstrip("/").partition(".")
    return mailbox, channel, kind
