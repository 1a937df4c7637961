"""Delete blobs that no job needs any more (`anygpu gc`)."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from anygpu.errors import BlobCorrupt, BlobMissing
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.contract import BlobInfo, Blobs
from anygpu.store.blobs.keys import (
    ROOT,
    UploadOwner,
    chunk_sha256,
    is_plan_key,
    is_upload_key,
    organisation_folder,
    parse_manifest_key,
)

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSweepResult:
    """Number of deleted blobs by kind, and their total size in bytes.

    In a dry run, the blobs that would be deleted are counted.
    """

    chunks: int = 0
    manifests: int = 0
    uploads: int = 0
    plans: int = 0
    unfinished: int = 0
    size: int = 0

    @property
    def count(self) -> int:
        return self.chunks + self.manifests + self.uploads + self.plans + self.unfinished

    def plus(self, kind: str, info: BlobInfo) -> "BlobSweepResult":
        return replace(self, size=self.size + info.size, **{kind: getattr(self, kind) + 1})


@runtime_checkable
class KeepsUnfinished(Protocol):
    """Interface of a store that keeps the files of interrupted puts. `list` does not show these files."""

    async def sweep_unfinished(self, before_ms: int, *, dry_run: bool = False) -> list[BlobInfo]: ...


async def sweep_blobs(
    blobs: Blobs,
    referenced: Iterable[str],
    *,
    now_ms: int,
    organisation: str | None = None,
    dry_run: bool = False,
    older_than_ms: int = DAY_MS,
) -> BlobSweepResult:
    """Delete blobs that are not referenced and were stored more than `older_than_ms` before `now_ms`.

    `now_ms` is the time by the store's clock. `referenced` contains the keys of manifests, working-directory
    archives (`Uploads.key`) and plans that jobs still need. Only chunks, manifests, archives, plans and
    unfinished files are deleted, never other blobs in the same bucket.
    """
    before_ms = now_ms - older_than_ms
    folder = ROOT if organisation is None else organisation_folder(organisation)
    keep = await _mark(blobs, folder, referenced, before_ms)
    swept, garbage = BlobSweepResult(), [item async for item in _garbage(blobs, folder, keep, before_ms)]
    for kind, info in garbage:
        swept = swept.plus(kind, info)
        if not dry_run:
            await blobs.delete(info.key)
    if organisation is None and isinstance(blobs, KeepsUnfinished):
        for info in await blobs.sweep_unfinished(before_ms, dry_run=dry_run):
            swept = swept.plus("unfinished", info)
    return swept


@dataclass(frozen=True, slots=True)
class _KeepSet:
    keys: set[str]
    folders: set[str]  # attempts with an unreadable manifest: everything in them is kept

    def contains(self, key: str) -> bool:
        return key in self.keys or _attempt_folder(key) in self.folders


async def _mark(blobs: Blobs, folder: str, referenced: Iterable[str], before_ms: int) -> _KeepSet:
    keep = _KeepSet(set(), set())
    checkpoints = Checkpoints(blobs)
    for key in referenced:
        await _mark_key(checkpoints, key, keep)
    async for info in blobs.list(folder):  # current uploads have no event yet
        if info.modified_ms >= before_ms and info.key not in keep.keys and parse_manifest_key(info.key):
            await _mark_key(checkpoints, info.key, keep)
    return keep


async def _mark_key(checkpoints: Checkpoints, key: str, keep: _KeepSet) -> None:
    keep.keys.add(key)
    named = parse_manifest_key(key)
    if named is None:
        return
    owner: UploadOwner = named[0]
    try:
        _, manifest = await checkpoints.read(key)
    except (BlobMissing, BlobCorrupt):
        keep.folders.add(owner.folder)
    else:
        for sha256 in manifest.chunks():
            keep.keys.update((owner.chunk_key(sha256), owner.incoming_key(sha256)))


async def _garbage(
    blobs: Blobs, folder: str, keep: _KeepSet, before_ms: int
) -> AsyncIterator[tuple[str, BlobInfo]]:
    async for info in blobs.list(folder):
        kind = _kind(info.key)
        if kind and info.modified_ms < before_ms and not keep.contains(info.key):
            yield kind, info


def _attempt_folder(key: str) -> str:
    return "/".join(key.split("/")[:6])


def _kind(key: str) -> str:
    if chunk_sha256(key) is not None:
        return "chunks"
    if is_upload_key(key):
        return "uploads"
    if is_plan_key(key):
        return "plans"
    return "manifests" if parse_manifest_key(key) else ""
