"""Send a snapshot of a working directory: the list of its files, and the contents that the server does not have."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from anygpu.errors import Conflict
from anygpu.sdk.client import Client
from anygpu.sdk.upload.stat_cache import StatCache
from anygpu.spec.ignore import OWN_IGNORE
from anygpu.spec.workdir import ArchiveEntry, list_files

ASK_COUNT = 5_000
BATCH_BYTES, BATCH_FILES = 8 << 20, 500
LARGE_BYTES = 1 << 20


class ProgressLine(Protocol):
    def add(self, size: int) -> None: ...


class _NoProgress:
    def add(self, size: int) -> None:
        """Show nothing."""


OpenProgress = Callable[[int], AbstractContextManager[ProgressLine]]


def no_progress(total: int) -> AbstractContextManager[ProgressLine]:
    return nullcontext(_NoProgress())


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a file to upload. It is read from `path` when it is sent, so that memory use stays small."""

    sha256: str
    path: Path
    size: int


def upload_snapshot(
    client: Client, root: Path, ignore: Sequence[str] = (), open_progress: OpenProgress = no_progress
) -> str:
    """Upload a snapshot of the files below `root` that are not ignored. Return the snapshot's SHA-256.

    Raises TooLarge, or UnsafePath for a link that leaves the directory, before anything is sent.
    """
    limits = client.upload_limits()
    max_bytes, max_files = limits["snapshot_bytes"], limits["snapshot_files"]
    entries = list_files(root, ignore, max_bytes=max_bytes, max_files=max_files)
    with StatCache.for_root(root) as cache:
        files = [_describe(entry, cache) for entry in entries]
    contents = {
        file["sha256"]: _Content(file["sha256"], entry.path, file["size"])
        for file, entry in zip(files, entries, strict=True)
        if file.get("size")
    }
    _send_missing(client, contents, open_progress)
    listed = json.dumps({"files": files}, sort_keys=True, separators=(",", ":")).encode()
    sha256 = hashlib.sha256(listed).hexdigest()
    client.upload(sha256, listed)
    return sha256


def _describe(entry: ArchiveEntry, cache: StatCache) -> dict[str, Any]:
    if entry.link is not None:
        return {"path": entry.name, "link": entry.link}
    try:
        size, sha256 = cache.sha256(entry.path, entry.name)
    except OSError as error:
        raise Conflict(
            f"The file {entry.path} cannot be read ({error.strerror or error}), so it cannot be uploaded with "
            "the job.",
            hint=f"Change its permissions, or add it to {OWN_IGNORE} if the job does not need it.",
        ) from error
    return {"path": entry.name, "size": size, "sha256": sha256, "executable": entry.executable}


def _send_missing(client: Client, contents: dict[str, _Content], open_progress: OpenProgress) -> None:
    hashes = list(contents)
    missing: list[_Content] = []
    for start in range(0, len(hashes), ASK_COUNT):
        missing += [contents[each] for each in client.missing_uploads(hashes[start : start + ASK_COUNT])]
    if not missing:
        return
    with open_progress(sum(content.size for content in missing)) as line:
        for batch in _batches([content for content in missing if content.size < LARGE_BYTES]):
            client.upload_batch([(content.sha256, _read(content)) for content in batch])
            line.add(sum(content.size for content in batch))
        for content in missing:
            if content.size >= LARGE_BYTES:
                client.upload(content.sha256, content.path, line.add)


def _batches(contents: Sequence[_Content]) -> Iterator[list[_Content]]:
    batch: list[_Content] = []
    size = 0
    for content in contents:
        if batch and (len(batch) >= BATCH_FILES or size + content.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(content)
        size += content.size
    if batch:
        yield batch


def _read(content: _Content) -> bytes:
    data = content.path.read_bytes()
    if hashlib.sha256(data).hexdigest() != content.sha256:
        raise Conflict(
            f"The file {content.path} changed while it was being uploaded.",
            hint=f"Submit the job again, or add the file to {OWN_IGNORE} if the job does not need it.",
        )
    return data
