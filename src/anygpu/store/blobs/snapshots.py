"""Snapshots of working directories: a list of files, and the content of each file stored under its SHA-256.

The list is a JSON document (`{"files": [{"path", "size", "sha256", "executable"} or {"path", "link"}]}`). It is an
upload of its organisation like the contents, and the SHA-256 of the document identifies the snapshot. Equal files of
all snapshots are stored once. Agents receive a snapshot as an archive, which is built when it is first needed.
"""

import asyncio
import hashlib
import json
import tarfile
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from anygpu.errors import BlobCorrupt, BlobMissing, InvalidSpec, Problem, TooLarge, UnsafePath
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.manifest import is_sha256, require_safe_path, require_valid_tree
from anygpu.store.blobs.uploads import INLINE_BYTES, Uploads

MAX_LIST_BYTES = 64 * 1024 * 1024
MAX_CONCURRENT_HEADS = 16
FRESH_MS = 12 * 3600 * 1000  # `anygpu gc` may delete an older upload before a job refers to it
COMPRESSION_LEVEL = 3
MTIME_S = 315_619_200  # 2 January 1980: zip files, and so wheels, support no earlier time
READ_BYTES = 1 << 20
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
MAX_ARCHIVES = 1000


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file of a snapshot, or a symbolic link (`link` is its target, relative to the directory of the link)."""

    path: str
    size: int = 0
    sha256: str = EMPTY_SHA256
    executable: bool = False
    link: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    max_bytes: int
    max_files: int


def parse_snapshot(data: bytes, limits: SnapshotLimits) -> tuple[SnapshotFile, ...]:
    """Parse the list of files. Raise InvalidSpec, UnsafePath or TooLarge; clients are not trusted."""
    try:
        items = json.loads(data)["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _invalid("is not a list of files") from None
    if not isinstance(items, list):
        raise _invalid("is not a list of files")
    if len(items) > limits.max_files:
        raise TooLarge(
            f"The working directory has {len(items)} files; the limit is {limits.max_files} files.",
            hint="Exclude files with .anygpuignore, or ask the operator to raise the setting "
            "`limits.snapshot_files`.",
        )
    files = tuple(_parse_file(item) for item in items)
    require_valid_tree(file.path for file in files)
    total = sum(file.size for file in files)
    if total > limits.max_bytes:
        raise TooLarge(
            f"The working directory has {total} bytes; the limit is {limits.max_bytes} bytes.",
            hint="Exclude large files with .anygpuignore, or ask the operator to raise the setting "
            "`limits.snapshot_bytes`.",
        )
    return files


def _parse_file(item: Any) -> SnapshotFile:
    if not isinstance(item, dict):
        raise _invalid("is not a valid list of files: an entry is not a JSON object")
    path = require_safe_path(item.get("path"), "files.path")
    if "link" in item:
        return SnapshotFile(path, link=_require_inner_link(path, item["link"]))
    size, sha256 = item.get("size"), item.get("sha256")
    if type(size) is not int or size < 0 or not is_sha256(sha256):
        raise _invalid(f"is not a valid list of files: {path!r} has no valid size and sha256")
    return SnapshotFile(path, size, str(sha256), bool(item.get("executable")))


def _require_inner_link(path: str, target: object) -> str:
    parts = target.split("/") if isinstance(target, str) and "\0" not in target else [""]
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    if parts[0] == "" or ups > path.count("/") or ".." in parts[ups:]:
        raise UnsafePath(
            f"The link {path!r} points outside the working directory.",
            hint="Exclude it with .anygpuignore, or replace it by a copy of its target.",
        )
    return "/".join(parts)


def _invalid(message: str) -> InvalidSpec:
    return InvalidSpec([Problem("workdir.manifest", None, message, "submit the job again", "body")])


class Snapshots:
    """The snapshots of working directories of all organisations, which share no contents."""

    def __init__(self, blobs: Blobs, uploads: Uploads, limits: SnapshotLimits) -> None:
        self._blobs, self._uploads = blobs, uploads
        self.limits = limits
        self._heads = asyncio.Semaphore(MAX_CONCURRENT_HEADS)
        self._archives: dict[tuple[str, str], str] = {}
        self._building: dict[tuple[str, str], asyncio.Task[str]] = {}

    async def read(self, organisation: str, sha256: str) -> tuple[SnapshotFile, ...]:
        """Return the files of a snapshot. Raises BlobMissing if its list is not stored."""
        key = self._uploads.key(organisation, sha256)
        info = await self._blobs.head(key)
        if info is not None and info.size > MAX_LIST_BYTES:
            raise TooLarge(
                f"The list of the working directory's files has {info.size} bytes; the limit is {MAX_LIST_BYTES} "
                "bytes. Exclude files with .anygpuignore."
            )
        return parse_snapshot(await self._blobs.get(key), self.limits)

    async def content(self, organisation: str, file: SnapshotFile) -> bytes:
        return await self._blobs.get(self._uploads.key(organisation, file.sha256)) if file.size else b""

    async def missing(self, organisation: str, hashes: Iterable[str], *, now_ms: int) -> list[str]:
        """Return the contents that the client has to upload.

        A content that is stored but old could be deleted before the job is submitted, so it is stored again here.
        """
        wanted = list(dict.fromkeys(hashes))
        stored = await asyncio.gather(*(self._keep(organisation, sha256, now_ms) for sha256 in wanted))
        return [sha256 for sha256, is_stored in zip(wanted, stored, strict=True) if not is_stored]

    async def lost_contents(self, organisation: str, files: Sequence[SnapshotFile]) -> list[str]:
        """Return the paths of files whose content is not stored."""
        hashes = list({file.sha256 for file in files if file.size})
        found = await asyncio.gather(*(self._has(organisation, sha256) for sha256 in hashes))
        lost = {sha256 for sha256, is_stored in zip(hashes, found, strict=True) if not is_stored}
        return [file.path for file in files if file.sha256 in lost]

    async def upload_keys(self, organisation: str, sha256: str) -> set[str]:
        """Return the keys of all blobs of a snapshot: its list and the contents of its files.

        Raises what `read` raises if the list is missing or damaged.
        """
        files = await self.read(organisation, sha256)
        hashes = {sha256, *(file.sha256 for file in files if file.size)}
        return {self._uploads.key(organisation, each) for each in hashes}

    async def archive(self, organisation: str, sha256: str, *, now_ms: int) -> str:
        """Return the SHA-256 of the snapshot as an uploaded archive. The archive is built if it is not stored."""
        key = (organisation, sha256)
        known = self._archives.get(key)
        if known and await self._uploads.has(organisation, known, since_ms=now_ms - FRESH_MS):
            return known
        if key not in self._building:
            self._building[key] = asyncio.create_task(self._build(organisation, sha256))
            self._building[key].add_done_callback(lambda _: self._building.pop(key, None))
        built = await asyncio.shield(self._building[key])
        if len(self._archives) >= MAX_ARCHIVES:
            self._archives.clear()
        self._archives[key] = built
        return built

    async def _has(self, organisation: str, sha256: str, since_ms: int = 0) -> bool:
        async with self._heads:
            return await self._uploads.has(organisation, sha256, since_ms=since_ms)

    async def _keep(self, organisation: str, sha256: str, now_ms: int) -> bool:
        """Return whether the content of a file is stored. An old content is stored again, which also verifies it."""
        if await self._has(organisation, sha256, now_ms - FRESH_MS):
            return True
        key = self._uploads.key(organisation, sha256)
        async with self._heads:
            info = await self._blobs.head(key)
            if info is None:
                return False
            try:
                await self._uploads.save(organisation, sha256, self._blobs.stream(key), limit=info.size)
            except (BlobCorrupt, BlobMissing, TooLarge):
                return False
        return True

    async def _build(self, organisation: str, sha256: str) -> str:
        """Build and store the archive of a snapshot. Equal snapshots give equal bytes."""
        files = await self.read(organisation, sha256)
        with tempfile.TemporaryFile(prefix="anygpu-snapshot-") as draft:
            packer = _Packer(draft)
            async for piece in self._tar_pieces(organisation, files):
                if len(piece) <= INLINE_BYTES:
                    packer.add(piece)
                else:
                    await asyncio.to_thread(packer.add, piece)
            built = packer.finish()
            size = draft.tell()
            draft.seek(0)
            await self._uploads.save(organisation, built, _read_pieces(draft), limit=size)
        return built

    async def _tar_pieces(self, organisation: str, files: Sequence[SnapshotFile]) -> AsyncIterator[bytes]:
        for file in sorted(files, key=lambda each: each.path):
            yield _tar_header(file)
            if not file.size:
                continue
            length = 0
            async for piece in self._blobs.stream(self._uploads.key(organisation, file.sha256)):
                length += len(piece)
                yield piece
            if length != file.size:
                raise BlobCorrupt(
                    f"The stored content of {file.path!r} has {length} bytes, not the expected {file.size}.",
                    hint="Submit the job again.",
                )
            yield bytes(-length % tarfile.BLOCKSIZE)
        yield bytes(2 * tarfile.BLOCKSIZE)


def _tar_header(file: SnapshotFile) -> bytes:
    info = tarfile.TarInfo(file.path)
    info.mode, info.mtime, info.size = 0o755 if file.executable else 0o644, MTIME_S, file.size
    if file.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, file.link, 0o777
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


class _Packer:
    """Compresses pieces into a file and computes the SHA-256 of the compressed bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest = file, hashlib.sha256()
        self._compress = zlib.compressobj(COMPRESSION_LEVEL, wbits=31)

    def add(self, piece: bytes) -> None:
        self._write(self._compress.compress(piece))

    def finish(self) -> str:
        self._write(self._compress.flush())
        return self._digest.hexdigest()

    def _write(self, packed: bytes) -> None:
        self._digest.update(packed)
        self._file.write(packed)


async def _read_pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, READ_BYTES):
        yield piece
