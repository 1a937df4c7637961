"""The blob store interface: named bytes in object storage."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

Method = Literal["GET", "PUT"]
# Every PUT to a signed URL must have these headers: Azure requires them, other stores ignore them.
UPLOAD_HEADERS = {"x-ms-blob-type": "BlockBlob"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobInfo:
    key: str
    size: int
    modified_ms: int
    etag: str = field(default="", compare=False)  # changes with the content, where the store reports one


class Blobs(Protocol):
    """A blob store. `get` and `list` never return a blob whose put did not finish."""

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo: ...

    async def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return the content of a blob, or `length` bytes of it from `start`.

        Fewer bytes are returned if the blob ends earlier. Raises BlobMissing if the blob does not exist.
        """
        ...

    def stream(self, key: str) -> AsyncIterator[bytes]: ...

    async def head(self, key: str) -> BlobInfo | None: ...

    def list(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """Yield the blobs below the folder `prefix`, in no particular order.

        An empty prefix means all blobs.
        """
        ...

    async def sign(self, method: Method, key: str, *, expires_s: float, max_size: int | None = None) -> str:
        """Return a URL that allows one operation (`method`) on one blob until the URL expires.

        The key may contain only letters, digits, `_`, `-`, `.`, `~` and `/`. `max_size` limits the bytes of a
        PUT if the store supports a limit. The server verifies the size after the upload in any case.
        """
        ...

    async def move(self, source: str, target: str) -> None:
        """Rename a blob, and replace the blob that `target` may name. Raises BlobMissing if there is no `source`.

        If the process ends in between, the blob has at least one of the two keys.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete a blob. Deleting a blob that does not exist is not an error."""
        ...
