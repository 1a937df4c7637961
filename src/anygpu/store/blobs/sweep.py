"""Find blobs that no job needs any more, move them to the trash, and delete them later (`anygpu gc`)."""

from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field, replace
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
    parse_manifest_key,
)
from anygpu.store.blobs.trash import TrashedBlob, list_trash, move_to_trash, restore_blobs

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPolicy:
    """When blobs are moved to the trash, and when they are deleted from it.

    A sweep that would remove more than `max_share` of at least `share_from` blobs is refused, because the references
    are then probably wrong.
    """

    older_than_ms: int = DAY_MS
    trash_ms: int = 7 * DAY_MS  # how long removed blobs stay in the trash
    max_share: float = 0.5
    share_from: int = 100


DEFAULT_POLICY = SweepPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """The blobs that jobs need: keys of single blobs, and folders of which everything is needed."""

    keys: Collection[str] = ()
    folders: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobSweepResult:
    """Number of removed blobs by kind, and their total size in bytes. In a dry run, what would be removed.

    `purged` are the blobs deleted from the trash, and `restored` those moved back from there. If the sweep was
    refused, `refused` says why, and nothing was removed or deleted.
    """

    chunks: int = 0
    manifests: int = 0
    uploads: int = 0
    plans: int = 0
    unfinished: int = 0
    size: int = 0
    purged: int = 0
    purged_size: int = 0
    restored: int = 0
    refused: str = ""

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
    references: References,
    *,
    now_ms: int,
    policy: SweepPolicy = DEFAULT_POLICY,
    force: bool = False,
    empty_trash: bool = False,
    dry_run: bool = False,
) -> BlobSweepResult:
    """Move unneeded blobs to the trash, move needed ones back, and delete what was in the trash for long enough.

    `now_ms` is the time by the store's clock. Only chunks, manifests, archives, plans and unfinished files are
    removed, never other blobs in the same bucket. With `force`, any share may be removed. With `empty_trash`,
    everything in the trash is deleted now.
    """
    before_ms = now_ms - policy.older_than_ms
    keep = await _mark(blobs, references, before_ms)
    result = await restore_needed(blobs, keep.contains, dry_run=dry_run)
    found = await _find_garbage(blobs, keep, before_ms)
    for kind, info in found.garbage:
        result = result.plus(kind, info)
    if not force and (reason := _refusal(found, policy)):
        return BlobSweepResult(restored=result.restored, refused=reason)
    if not dry_run:
        for _, info in found.garbage:
            await move_to_trash(blobs, info.key, now_ms)
    if isinstance(blobs, KeepsUnfinished):
        for info in await blobs.sweep_unfinished(before_ms, dry_run=dry_run):
            result = result.plus("unfinished", info)
    return await _purge(blobs, result, now_ms - (0 if empty_trash else policy.trash_ms), dry_run)


async def restore_needed(
    blobs: Blobs, is_needed: Callable[[str], bool], *, dry_run: bool = False
) -> BlobSweepResult:
    """Move blobs from the trash back if something refers to them again."""
    trashed = await list_trash(blobs)
    if dry_run:
        return BlobSweepResult(restored=len({each.key for each in trashed if is_needed(each.key)}))
    return BlobSweepResult(restored=len(await restore_blobs(blobs, trashed, is_needed)))


async def restore_referenced(blobs: Blobs, references: References, *, now_ms: int) -> int:
    """Move blobs that jobs refer to back from the trash, such as after a database was restored.

    Return their number.
    """
    if not await list_trash(blobs):
        return 0
    keep = await _mark(blobs, references, now_ms - DAY_MS)
    return (await restore_needed(blobs, keep.contains)).restored


@dataclass(frozen=True, slots=True)
class _KeepSet:
    keys: set[str]
    folders: set[str]  # attempts with an unreadable manifest, and folders that must not be swept

    def contains(self, key: str) -> bool:
        return key in self.keys or any(folder in self.folders for folder in _parents(key))


async def _mark(blobs: Blobs, references: References, before_ms: int) -> _KeepSet:
    keep = _KeepSet(set(), set(references.folders))
    checkpoints = Checkpoints(blobs)
    for key in references.keys:
        await _mark_key(checkpoints, key, keep)
    async for info in blobs.list(ROOT):  # current uploads have no event yet
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


@dataclass(slots=True)
class _Findings:
    total: int = 0  # blobs of the kinds that a sweep may remove
    garbage: list[tuple[str, BlobInfo]] = field(default_factory=list)


async def _find_garbage(blobs: Blobs, keep: _KeepSet, before_ms: int) -> _Findings:
    found = _Findings()
    async for kind, info in _list_known(blobs):
        found.total += 1
        if info.modified_ms < before_ms and not keep.contains(info.key):
            found.garbage.append((kind, info))
    return found


async def _list_known(blobs: Blobs) -> AsyncIterator[tuple[str, BlobInfo]]:
    async for info in blobs.list(ROOT):
        if kind := _kind(info.key):
            yield kind, info


def _refusal(found: _Findings, policy: SweepPolicy) -> str:
    count, total = len(found.garbage), found.total
    if total < policy.share_from or count <= policy.max_share * total:
        return ""
    return (
        f"{count} of {total} files would be removed, which is more than usual. Check that this is the right"
        " database; if it is, run `anygpu gc --force`"
    )


async def _purge(blobs: Blobs, result: BlobSweepResult, before_ms: int, dry_run: bool) -> BlobSweepResult:
    expired = [each for each in await list_trash(blobs) if each.removed_at_ms <= before_ms]
    if not dry_run:
        for each in expired:
            await blobs.delete(each.info.key)
    return replace(result, purged=len(expired), purged_size=_total_size(expired))


def _total_size(trashed: list[TrashedBlob]) -> int:
    return sum(each.info.size for each in trashed)


def _parents(key: str) -> list[str]:
    """Return the folders that contain the key."""
    parts = key.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _kind(key: str) -> str:
    if chunk_sha256(key) is not None:
        return "chunks"
    if is_upload_key(key):
        return "uploads"
    if is_plan_key(key):
        return "plans"
    return "manifests" if parse_manifest_key(key) else ""
