"""The server's side of publishing: begin, the agent's PUTs, verify, and then the caller appends the event.

A manifest without an event is garbage, never a checkpoint.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict

from anygpu.errors import AnygpuError, BlobCorrupt, BlobMissing, IncompleteUpload, NotFound
from anygpu.events.facts import ArtifactRef
from anygpu.store.blobs import Blobs
from anygpu.store.inspection import Inspector
from anygpu.store.layout import Owner, read_manifest_key
from anygpu.store.manifest import (
    Chunk,
    Kind,
    Manifest,
    artifact_from,
    checkpoint_from,
    is_sha256,
    manifest_from_bytes,
)
from anygpu.store.publishing import Begun, ChunkPlan, DownloadPlan, FilePlan, Upload, Verified

URL_LIFE_S = 3600.0
# The sweep deletes unreferenced chunks after a day. What is older than half of one is asked for again, so
# that no chunk is swept between being found here and being published.
REUSE_WITHIN_MS = 12 * 3600 * 1000


class Checkpoints:
    """Publishes what agents upload, and hands it out again. Knows no time: the store's URLs do."""

    def __init__(self, blobs: Blobs, *, url_life_s: float = URL_LIFE_S, at_once: int = 4) -> None:
        self._blobs = blobs
        self._url_life_s = url_life_s
        self._inspector = Inspector(blobs, at_once=at_once)

    async def begin(self, owner: Owner, manifest: object) -> Begun:
        """Take a checkpoint's manifest as the agent sent it; asking twice gives the same id."""
        return await self._begin(owner, checkpoint_from(manifest))

    async def begin_artifact(self, owner: Owner, manifest: object) -> Begun:
        """The same for one file: `{"name": …, "file": {…}}`."""
        return await self._begin(owner, artifact_from(manifest))

    async def verify(self, owner: Owner, checkpoint_id: str) -> Verified:
        """Every chunk is read back and hashed; IncompleteUpload lists what must be sent again, with URLs."""
        manifest = await self._verified(owner, checkpoint_id, "checkpoint")
        return Verified(
            id=checkpoint_id,
            attempt=owner.attempt,
            step=manifest.step,
            manifest=owner.manifest(checkpoint_id),
            size=manifest.size,
        )

    async def verify_artifact(self, owner: Owner, artifact_id: str) -> ArtifactRef:
        """The same for one file."""
        file = (await self._verified(owner, artifact_id, "artifact")).files[0]
        key = owner.manifest(artifact_id)
        return ArtifactRef(name=file.path, attempt=owner.attempt, key=key, size=file.size, sha256=file.sha256)

    async def download_plan(self, key: str) -> DownloadPlan:
        """Signed URLs for what a published manifest consists of."""
        owner, manifest = await self.read(key)
        plans = {sha256: await self._plan(owner, chunk) for sha256, chunk in manifest.chunks().items()}
        files = tuple(
            FilePlan(
                path=file.path,
                size=file.size,
                sha256=file.sha256,
                chunks=tuple(plans[chunk.sha256] for chunk in file.chunks),
            )
            for file in manifest.files
        )
        return DownloadPlan(step=manifest.step, world_size=manifest.world_size, files=files)

    async def check(self, key: str) -> None:
        """Read a checkpoint back before resuming from it: BlobMissing or BlobCorrupt when it is no good."""
        owner, manifest = await self.read(key)
        damaged = await self._inspector.damaged(owner, manifest)
        if damaged:
            raise BlobCorrupt(f"{len(damaged)} chunks of {key!r} are missing or damaged.", missing=damaged)

    async def intact(self, key: str) -> bool:
        """The same as an answer. A store that cannot be reached is no answer: that still raises."""
        try:
            await self.check(key)
        except (BlobMissing, BlobCorrupt):
            return False
        return True

    async def read(self, key: str) -> tuple[Owner, Manifest]:
        """The manifest behind a key, checked against its own name."""
        named = read_manifest_key(key)
        if named is None:
            raise NotFound(f"{key!r} is not the key of a manifest.")
        owner, manifest_id = named
        manifest = _parsed(key, await self._blobs.get(key))
        if manifest.id_in(owner.attempt) != manifest_id:
            raise BlobCorrupt(f"The manifest {key!r} is not the one that was saved.", key=key)
        return owner, manifest

    async def _begin(self, owner: Owner, manifest: Manifest) -> Begun:
        manifest_id = manifest.id_in(owner.attempt)
        saved = await self._blobs.put(owner.manifest(manifest_id), manifest.to_bytes())
        oldest_ms = saved.modified_ms - REUSE_WITHIN_MS
        lacking = await self._inspector.lacking(owner, manifest, oldest_ms=oldest_ms)
        return Begun(id=manifest_id, uploads=await self._uploads(owner, lacking))

    async def _verified(self, owner: Owner, manifest_id: str, kind: Kind) -> Manifest:
        manifest = await self._pending(owner, manifest_id, kind)
        damaged = await self._inspector.damaged(owner, manifest)
        if damaged:
            raise await self._incomplete(owner, manifest, damaged)
        return manifest

    async def _pending(self, owner: Owner, manifest_id: str, kind: Kind) -> Manifest:
        unknown = NotFound(f"No {kind} {manifest_id!r} was begun.", hint="Begin it again, then commit.")
        if not is_sha256(manifest_id):
            raise unknown
        try:
            _, manifest = await self.read(owner.manifest(manifest_id))
        except BlobMissing as error:
            raise unknown from error
        if manifest.kind != kind:
            raise unknown
        return manifest

    async def _incomplete(self, owner: Owner, manifest: Manifest, damaged: list[str]) -> IncompleteUpload:
        chunks = manifest.chunks()
        uploads = await self._uploads(owner, (chunks[sha256] for sha256 in damaged))
        return IncompleteUpload(
            f"{len(damaged)} of {len(chunks)} chunks are missing or damaged.",
            hint="Send them again, then commit again.",
            missing=damaged,
            uploads=[asdict(upload) for upload in uploads],
        )

    async def _uploads(self, owner: Owner, chunks: Iterable[Chunk]) -> tuple[Upload, ...]:
        return tuple(await asyncio.gather(*(self._upload(owner, chunk) for chunk in chunks)))

    async def _upload(self, owner: Owner, chunk: Chunk) -> Upload:
        key = owner.chunk(chunk.sha256)
        url = await self._blobs.sign("PUT", key, expires_s=self._url_life_s, max_size=chunk.size)
        return Upload(sha256=chunk.sha256, url=url)

    async def _plan(self, owner: Owner, chunk: Chunk) -> ChunkPlan:
        url = await self._blobs.sign("GET", owner.chunk(chunk.sha256), expires_s=self._url_life_s)
        return ChunkPlan(url=url, size=chunk.size, sha256=chunk.sha256)


def _parsed(key: str, data: bytes) -> Manifest:
    try:
        return manifest_from_bytes(data)
    except (ValueError, KeyError, TypeError, IndexError, AnygpuError) as error:
        raise BlobCorrupt(f"The manifest {key!r} cannot be read.", key=key) from error
