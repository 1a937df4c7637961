"""The trash of a blob store: blobs that a sweep has removed, until they are deleted.

A blob in the trash has the key `trash/{time of removal}/{its key}`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from anygpu.errors import BlobMissing
from anygpu.store.blobs.contract import BlobInfo, Blobs

TRASH = "trash"
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrashedBlob:
    info: BlobInfo
    key: str  # the key that the blob had before
    removed_at_ms: int


def trash_key(key: str, removed_at_ms: int) -> str:
    moment = datetime.fromtimestamp(removed_at_ms / 1000, UTC)
    return f"{TRASH}/{moment.strftime(_TIME_FORMAT)}/{key}"


def parse_trash_key(info: BlobInfo) -> TrashedBlob | None:
    """Parse the key of a blob in the trash: its former key, and when it was removed. None for any other key."""
    _, _, rest = info.key.partition("/")
    moment, _, key = rest.partition("/")
    try:
        removed_at = datetime.strptime(moment, _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
    return TrashedBlob(info=info, key=key, removed_at_ms=round(removed_at.timestamp() * 1000))


async def list_trash(blobs: Blobs) -> list[TrashedBlob]:
    """Return the blobs in the trash, those that were removed last at the end."""
    listed = [parse_trash_key(info) async for info in blobs.list(TRASH)]
    return sorted((each for each in listed if each is not None), key=lambda each: each.removed_at_ms)


async def move_to_trash(blobs: Blobs, key: str, now_ms: int) -> None:
    """Move a blob to the trash. Does nothing if another process has just moved it."""
    try:
        await blobs.move(key, trash_key(key, now_ms))
    except BlobMissing:
        return


async def restore_blobs(
    blobs: Blobs, trashed: Iterable[TrashedBlob], is_needed: Callable[[str], bool]
) -> set[str]:
    """Move needed blobs from the trash back to their former keys, unless the key is taken again.

    Return the keys that the moved blobs had in the trash.
    """
    newest = {each.key: each for each in trashed if is_needed(each.key)}
    restored: set[str] = set()
    for key, each in newest.items():
        if await blobs.head(key) is None:
            await blobs.move(each.info.key, key)
            restored.add(each.info.key)
    return restored
