"""Working-directory archives, by content and organisation."""

from collections.abc import AsyncIterator

from anygpu.errors import InvalidSpec, Problem
from anygpu.store.blobs import BlobInfo, Blobs
from anygpu.store.hashing import checked
from anygpu.store.layout import upload_key
from anygpu.store.manifest import is_sha256

URL_LIFE_S = 3600.0


class Uploads:
    """Each archive is kept once for each organisation; nobody learns what another organisation has."""

    def __init__(self, blobs: Blobs, *, url_life_s: float = URL_LIFE_S) -> None:
        self._blobs = blobs
        self._url_life_s = url_life_s

    async def has(self, organisation: str, sha256: str, *, since_ms: int = 0) -> bool:
        """`since_ms`: what is older may be swept before a job refers to it, so it does not count."""
        info = await self._blobs.head(self.key(organisation, sha256))
        return info is not None and info.modified_ms >= since_ms

    async def save(
        self, organisation: str, sha256: str, stream: AsyncIterator[bytes], *, limit: int
    ) -> BlobInfo:
        """Checks while it writes: TooLarge and BlobCorrupt leave nothing behind."""
        key = self.key(organisation, sha256)
        return await self._blobs.put(key, checked(stream, sha256=sha256, limit=limit))

    async def url(self, organisation: str, sha256: str) -> str:
        key = self.key(organisation, sha256)
        return await self._blobs.sign("GET", key, expires_s=self._url_life_s)

    def key(self, organisation: str, sha256: str) -> str:
        if not is_sha256(sha256):
            raise InvalidSpec([Problem("sha256", sha256[:200], "64 lower-case hex digits are needed")])
        return upload_key(organisation, sha256)
