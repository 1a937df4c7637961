"""Sample manifests in the format that an agent sends."""

import hashlib
from typing import Any

from anygpu.store.blobs.checkpoints import Checkpoints, UploadSession
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.keys import UploadOwner

OWNER = UploadOwner(organisation="lab", job_id="0198f3c2-0000-7000-8000-000000000001", attempt=1)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_of(path: str, *chunks: bytes) -> dict[str, Any]:
    whole = b"".join(chunks)
    return {
        "path": path,
        "size": len(whole),
        "sha256": digest(whole),
        "chunks": [{"size": len(chunk), "sha256": digest(chunk)} for chunk in chunks],
    }


def manifest_of(*files: dict[str, Any], step: int = 400) -> dict[str, Any]:
    return {"step": step, "at": 1763240000.1, "world_size": 1, "files": list(files)}


def artifact_of(name: str, *chunks: bytes) -> dict[str, Any]:
    return {"name": name, "file": file_of(name, *chunks)}


async def upload_chunks(blobs: Blobs, owner: UploadOwner, *chunks: bytes) -> None:
    for chunk in chunks:
        await blobs.put(owner.incoming_key(digest(chunk)), chunk)


async def begin_and_upload(
    checkpoints: Checkpoints, blobs: Blobs, owner: UploadOwner, path: str, *chunks: bytes, step: int = 400
) -> UploadSession:
    begun = await checkpoints.begin(owner, manifest_of(file_of(path, *chunks), step=step))
    await upload_chunks(blobs, owner, *chunks)
    return begun
