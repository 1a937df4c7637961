"""The blob store interface: named bytes in object storage."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol

Method = Literal["GET", "PUT"]
# Every PUT to a signed URL must have these headers: Azure requires them, other stores ignore them.
UPLOAD_HEADERS = {"x-ms-blob-type": "BlockBlob"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobInfo:
    key: str
    size: int
    modified_ms: int


class Blobs(Protocol):
    """A blob store. A put that did not finish is never visible."""

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo: ...

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read a blob or a range of it, cut off at its end. Raises BlobMissing when there is no such blob."""
        ...

    def stream(self, key: str) -> AsyncIterator[bytes]: ...

    async def head(self, key: str) -> BlobInfo | None: ...

    def list(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """List the blobs below the folder `prefix`, in no particular order. An empty prefix lists all."""
        ...

    async def sign(self, method: Method, key: str, *, expires_s: float, max_size: int | None = None) -> str:
        """Create a URL that allows this one operation until it expires.

        The key may contain only letters, digits, `_`, `-`, `.`, `~` and `/`. `max_size` limits a PUT if the store
        supports that; the uploaded size is verified later in any case.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete a blob. Deleting a blob that does not exist is not an error."""
        ...
