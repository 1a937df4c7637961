"""The blob store interface: named bytes in object storage."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

Method = Literal["GET", "PUT"]
# Every PUT to a signed URL carries these: Azure refuses it without, the others do not mind.
UPLOAD_HEADERS = {"x-ms-blob-type": "BlockBlob"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobInfo:
    key: str
    size: int
    modified_ms: int


class Blobs(Protocol):
    """Put, get, head, list, sign, delete. A put that did not finish is never seen."""

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo: ...

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """BlobMissing when it is not there. A range past the end gives what there is of it."""
        ...

    def stream(self, key: str) -> AsyncIterator[bytes]: ...

    async def head(self, key: str) -> BlobInfo | None: ...

    def list(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """What lies in the folder `prefix`, at any depth, in no order; all of it when empty."""
        ...

    async def sign(self, method: Method, key: str, *, expires_s: float, max_size: int | None = None) -> str:
        """A URL that lets whoever holds it do just this, until it expires.

        Only keys of letters, digits and `_`, `-`, `.`, `~` can be signed.
        `max_size` limits a PUT where the store can; what was uploaded is checked afterwards in any case.
        """
        ...

    async def delete(self, key: str) -> None:
        """Deleting twice is the same as once."""
        ...
