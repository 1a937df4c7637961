"""Publish checkpoints and artifacts (result files) in three steps.

1. The agent sends a manifest, which lists the files and their chunks, and uploads the chunks that the server
   does not have.
2. The server moves the uploaded chunks to keys that the agent cannot write to, reads them back and verifies
   their hashes.
3. The caller appends the event to the journal. `anygpu gc` deletes manifests that no event refers to.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from anygpu.errors import AnygpuError, BlobCorrupt, BlobMissing, IncompleteUpload, NotFound
from anygpu.events.facts import ArtifactRef, CheckpointRef
from anygpu.store.blobs.contract import UPLOAD_HEADERS, Blobs
from anygpu.store.blobs.keys import UploadOwner, parse_manifest_key
from anygpu.store.blobs.manifest import (
    Chunk,
    Manifest,
    ManifestFile,
    ManifestKind,
    decode_manifest,
    is_sha256,
    parse_artifact_manifest,
    parse_checkpoint_manifest,
)
from anygpu.store.blobs.uploads import Hasher, update_hashes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkUpload:
    """A chunk that the server does not have, and the URL to upload the chunk to."""

    sha256: str
    url: str
    method: str = "PUT"
    headers: dict[str, str] = field(default_factory=UPLOAD_HEADERS.copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadSession:
    """An upload that has begun: the id to commit with, and the chunks that the server does not have yet."""

    id: str
    uploads: tuple[ChunkUpload, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCheckpoint:
    """A checkpoint whose chunks are all stored and have the right hashes.

    A job can resume from the checkpoint only after the event `CheckpointSaved` is in the journal.
    """

    id: str
    attempt: int
    step: int
    manifest: str  # blob key
    size: int
    unit: str = ""
    epoch: int | None = None

    def ref(self, saved_at_ms: int) -> CheckpointRef:
        return CheckpointRef(
            id=self.id,
            attempt=self.attempt,
            step=self.step,
            manifest=self.manifest,
            size=self.size,
            saved_at_ms=saved_at_ms,
            unit=self.unit,
            epoch=self.epoch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkDownload:
    url: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDownload:
    path: str
    size: int
    sha256: str
    chunks: tuple[ChunkDownload, ...]  # in order, to be joined


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadPlan:
    """URLs to download the files of a checkpoint or an artifact.

    The agent receives the plan as JSON (`asdict`).
    """

    step: int
    world_size: int
    files: tuple[FileDownload, ...]


MAX_CONCURRENT_HEADS = 16


class ChunkVerifier:
    """Checks which chunks (parts of files) of an upload are stored, and reads them back to verify their hashes."""

    def __init__(self, blobs: Blobs, *, concurrency: int) -> None:
        self._blobs = blobs
        self._file_slots = asyncio.Semaphore(concurrency)
        self._head_slots = asyncio.Semaphore(MAX_CONCURRENT_HEADS)
        self._running: dict[str, asyncio.Task[list[str]]] = {}

    async def missing_chunks(self, owner: UploadOwner, manifest: Manifest, *, oldest_ms: int) -> list[Chunk]:
        """Return the chunks that the agent has to upload.

        A chunk has to be uploaded if it is not stored, has the wrong size, or was stored before `oldest_ms`: `anygpu
        gc` could delete such an old chunk before the upload is committed.
        """
        chunks = list(manifest.chunks().values())
        stored = await asyncio.gather(*(self._is_stored(owner, chunk, oldest_ms) for chunk in chunks))
        return [chunk for chunk, is_stored in zip(chunks, stored, strict=True) if not is_stored]

    async def damaged_chunks(self, owner: UploadOwner, manifest: Manifest) -> list[str]:
        """Return the sha256 of every chunk that is missing or damaged.

        If the same manifest is already being verified, wait for that verification. A client whose request
        timed out can thus repeat the request until it gets the result.
        """
        key = owner.manifest_key(manifest.id_for(owner.attempt))
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._verify_files(owner, manifest))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(task)

    async def _is_stored(self, owner: UploadOwner, chunk: Chunk, oldest_ms: int) -> bool:
        for key in (owner.chunk_key(chunk.sha256), owner.incoming_key(chunk.sha256)):
            async with self._head_slots:
                info = await self._blobs.head(key)
            if info is not None and info.size == chunk.size and info.modified_ms >= oldest_ms:
                return True
        return False

    async def _verify_files(self, owner: UploadOwner, manifest: Manifest) -> list[str]:
        results = await asyncio.gather(*(self._verify_file(owner, file) for file in manifest.files))
        return list(dict.fromkeys(sha256 for damaged in results for sha256 in damaged))

    async def _verify_file(self, owner: UploadOwner, file: ManifestFile) -> Sequence[str]:
        whole: Hasher = hashlib.sha256()
        damaged: list[str] = []
        async with self._file_slots:
            for chunk in file.chunks:
                extended = await self._verify_chunk(owner, chunk, whole)
                if extended is None:
                    damaged.append(chunk.sha256)
                else:
                    whole = extended
        if not damaged and whole.hexdigest() != file.sha256:
            raise BlobCorrupt(
                f"The uploaded file {file.path!r} is damaged: its chunks together do not have the sha256 "
                f"{file.sha256}.",
                hint="The file changed while the agent read it. Save the checkpoint or artifact again.",
            )
        return damaged

    async def _verify_chunk(self, owner: UploadOwner, chunk: Chunk, whole: Hasher) -> Hasher | None:
        """Verify a chunk. Return the hash `whole`, extended by the chunk; None if the chunk is missing or damaged.

        A published chunk that is intact is used as it is. Otherwise the uploaded chunk is moved to a key for which
        nobody has an upload URL, so that it cannot change after it was verified.
        """
        key = owner.chunk_key(chunk.sha256)
        known = await self._hash_chunk(key, chunk, whole)
        if known is not None:
            return known
        is_new = await self._take_incoming(owner, chunk)
        # Read again even if nothing was moved: the chunk may be in two files that are verified at the same time.
        uploaded = await self._hash_chunk(key, chunk, whole)
        if uploaded is None and is_new:
            await self._blobs.delete(key)
        return uploaded

    async def _take_incoming(self, owner: UploadOwner, chunk: Chunk) -> bool:
        try:
            await self._blobs.move(owner.incoming_key(chunk.sha256), owner.chunk_key(chunk.sha256))
        except BlobMissing:
            return False
        return True

    async def _hash_chunk(self, key: str, chunk: Chunk, whole: Hasher) -> Hasher | None:
        info = await self._blobs.head(key)
        if info is None or info.size != chunk.size:  # no need to read the chunk
            return None
        digest, whole = hashlib.sha256(), whole.copy()
        try:
            async for piece in self._blobs.stream(key):
                await update_hashes(piece, digest, whole)
        except BlobMissing:
            return None
        return whole if digest.hexdigest() == chunk.sha256 else None


URL_LIFE_S = 3600.0
# The sweep deletes unreferenced chunks after a day. Chunks older than half a day are uploaded again, so that none
# is swept between this check and the commit.
REUSE_WITHIN_MS = 12 * 3600 * 1000


class Checkpoints:
    """Publishes the checkpoints and artifacts that agents upload, and lists the URLs to download them."""

    def __init__(self, blobs: Blobs, *, url_life_s: float = URL_LIFE_S, concurrency: int = 4) -> None:
        self._blobs = blobs
        self._url_life_s = url_life_s
        self._verifier = ChunkVerifier(blobs, concurrency=concurrency)

    async def begin(self, owner: UploadOwner, manifest: object) -> UploadSession:
        """Store the list of files (manifest) of a checkpoint, and return the chunks to upload.

        If the same manifest is sent again, the session has the same id.
        """
        return await self._begin(owner, parse_checkpoint_manifest(manifest))

    async def begin_artifact(self, owner: UploadOwner, manifest: object) -> UploadSession:
        """Begin the upload of an artifact, which is a single file: `{"name": …, "file": {…}}`."""
        return await self._begin(owner, parse_artifact_manifest(manifest))

    async def verify(self, owner: UploadOwner, checkpoint_id: str) -> VerifiedCheckpoint:
        """Read back and hash every chunk of a checkpoint.

        Raises IncompleteUpload with the URLs of the chunks to upload again.
        """
        manifest = await self._verify(owner, checkpoint_id, "checkpoint")
        return VerifiedCheckpoint(
            id=checkpoint_id,
            attempt=owner.attempt,
            step=manifest.step,
            manifest=owner.manifest_key(checkpoint_id),
            size=manifest.size,
            unit=manifest.unit,
            epoch=manifest.epoch,
        )

    async def verify_artifact(self, owner: UploadOwner, artifact_id: str) -> ArtifactRef:
        """Read back and hash every chunk of an artifact. Raises IncompleteUpload, as `verify` does."""
        file = (await self._verify(owner, artifact_id, "artifact")).files[0]
        key = owner.manifest_key(artifact_id)
        return ArtifactRef(name=file.path, attempt=owner.attempt, key=key, size=file.size, sha256=file.sha256)

    async def download_plan(self, key: str) -> DownloadPlan:
        """Return signed URLs for all files of a published checkpoint or artifact."""
        owner, manifest = await self.read(key)
        plans = {
            sha256: await self._sign_download(owner, chunk) for sha256, chunk in manifest.chunks().items()
        }
        files = tuple(
            FileDownload(
                path=file.path,
                size=file.size,
                sha256=file.sha256,
                chunks=tuple(plans[chunk.sha256] for chunk in file.chunks),
            )
            for file in manifest.files
        )
        return DownloadPlan(step=manifest.step, world_size=manifest.world_size, files=files)

    async def check(self, key: str) -> None:
        """Verify a checkpoint before a job resumes from it. Raises BlobMissing or BlobCorrupt."""
        owner, manifest = await self.read(key)
        damaged = await self._verifier.damaged_chunks(owner, manifest)
        if damaged:
            raise BlobCorrupt(
                f"{len(damaged)} chunks of the checkpoint {key!r} are missing or damaged. Use an earlier "
                "checkpoint.",
                missing=damaged,
            )

    async def is_intact(self, key: str) -> bool:
        """Return whether a checkpoint is intact. Raises BackendUnavailable if the store cannot be read."""
        try:
            await self.check(key)
        except (BlobMissing, BlobCorrupt):
            return False
        return True

    async def read(self, key: str) -> tuple[UploadOwner, Manifest]:
        """Read the manifest (list of files) with this key, and check that its content matches its id."""
        parsed = parse_manifest_key(key)
        if parsed is None:
            raise NotFound(
                f"{key!r} is not the key of a stored checkpoint or artifact. Use the key that the event "
                "CheckpointSaved or ArtifactSaved contains."
            )
        owner, manifest_id = parsed
        manifest = _parse_manifest(key, await self._blobs.get(key))
        if manifest.id_for(owner.attempt) != manifest_id:
            raise BlobCorrupt(
                f"The stored list of the checkpoint's files, {key!r}, was changed after it was stored. Use an "
                "earlier checkpoint, and check the disk or bucket.",
                key=key,
            )
        return owner, manifest

    async def _begin(self, owner: UploadOwner, manifest: Manifest) -> UploadSession:
        manifest_id = manifest.id_for(owner.attempt)
        saved = await self._blobs.put(owner.manifest_key(manifest_id), manifest.to_bytes())
        oldest_ms = saved.modified_ms - REUSE_WITHIN_MS
        lacking = await self._verifier.missing_chunks(owner, manifest, oldest_ms=oldest_ms)
        return UploadSession(id=manifest_id, uploads=await self._sign_uploads(owner, lacking))

    async def _verify(self, owner: UploadOwner, manifest_id: str, kind: ManifestKind) -> Manifest:
        manifest = await self._read_pending(owner, manifest_id, kind)
        damaged = await self._verifier.damaged_chunks(owner, manifest)
        if damaged:
            raise await self._incomplete_upload(owner, manifest, damaged)
        return manifest

    async def _read_pending(self, owner: UploadOwner, manifest_id: str, kind: ManifestKind) -> Manifest:
        unknown = NotFound(
            f"No upload of the {kind} {manifest_id!r} was begun, so it cannot be committed.",
            hint="Begin the upload again, then commit it.",
        )
        if not is_sha256(manifest_id):
            raise unknown
        try:
            _, manifest = await self.read(owner.manifest_key(manifest_id))
        except BlobMissing as error:
            raise unknown from error
        if manifest.kind != kind:
            raise unknown
        return manifest

    async def _incomplete_upload(
        self, owner: UploadOwner, manifest: Manifest, damaged: list[str]
    ) -> IncompleteUpload:
        chunks = manifest.chunks()
        uploads = await self._sign_uploads(owner, (chunks[sha256] for sha256 in damaged))
        return IncompleteUpload(
            f"{len(damaged)} of {len(chunks)} chunks of the upload are missing or damaged.",
            hint="Upload the listed chunks again, then commit again.",
            missing=damaged,
            uploads=[asdict(upload) for upload in uploads],
        )

    async def _sign_uploads(self, owner: UploadOwner, chunks: Iterable[Chunk]) -> tuple[ChunkUpload, ...]:
        return tuple(await asyncio.gather(*(self._sign_upload(owner, chunk) for chunk in chunks)))

    async def _sign_upload(self, owner: UploadOwner, chunk: Chunk) -> ChunkUpload:
        key = owner.incoming_key(chunk.sha256)
        url = await self._blobs.sign("PUT", key, expires_s=self._url_life_s, max_size=chunk.size)
        return ChunkUpload(sha256=chunk.sha256, url=url)

    async def _sign_download(self, owner: UploadOwner, chunk: Chunk) -> ChunkDownload:
        url = await self._blobs.sign("GET", owner.chunk_key(chunk.sha256), expires_s=self._url_life_s)
        return ChunkDownload(url=url, size=chunk.size, sha256=chunk.sha256)


def _parse_manifest(key: str, data: bytes) -> Manifest:
    try:
        return decode_manifest(data)
    except (ValueError, KeyError, TypeError, IndexError, AnygpuError) as error:
        raise BlobCorrupt(
            f"The stored list of the checkpoint's files, {key!r}, is damaged. Use an earlier checkpoint, and "
            "check the disk or bucket.",
            key=key,
        ) from error
