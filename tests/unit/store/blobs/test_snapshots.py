"""Lists of files from clients are checked, and a snapshot always gives the same archive."""

import hashlib
import io
import json
import tarfile
from typing import Any

import pytest

from anygpu.errors import AnygpuError, BlobCorrupt
from anygpu.store.blobs.snapshots import SnapshotLimits, Snapshots, parse_snapshot
from anygpu.store.blobs.uploads import Uploads
from anygpu.testing.memory.blobs import MemoryBlobs

LIMITS = SnapshotLimits(max_bytes=100, max_files=3)
SHA = "a" * 64


def listed(*files: Any) -> bytes:
    return json.dumps({"files": files}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"files": 3}',
        listed(3),
        listed({"path": "../a", "size": 1, "sha256": SHA}),
        listed({"path": "/a", "size": 1, "sha256": SHA}),
        listed({"path": "a", "size": -1, "sha256": SHA}),
        listed({"path": "a", "size": True, "sha256": SHA}),
        listed({"path": "a", "size": 1, "sha256": "x"}),
        listed({"path": "a", "size": 101, "sha256": SHA}),
        listed({"path": "a", "link": "/etc/passwd"}),
        listed({"path": "a/b", "link": "../../c"}),
        listed({"path": "a", "link": "b/../../c"}),
        listed({"path": "a", "link": ""}),
        listed({"path": "a", "link": 3}),
        listed({"path": "a", "size": 0, "sha256": SHA}, {"path": "a", "size": 0, "sha256": SHA}),
        listed({"path": "a", "size": 0, "sha256": SHA}, {"path": "a/b", "size": 0, "sha256": SHA}),
        listed(*({"path": str(number), "size": 0, "sha256": SHA} for number in range(4))),
    ],
)
def test_a_list_that_is_wrong_is_refused(data: bytes) -> None:
    with pytest.raises(AnygpuError):
        parse_snapshot(data, LIMITS)


async def snapshots_with(*contents: bytes) -> tuple[Snapshots, MemoryBlobs, Uploads]:
    blobs = MemoryBlobs()
    uploads = Uploads(blobs)
    for data in contents:
        await blobs.put(uploads.key("lab", hashlib.sha256(data).hexdigest()), data)
    return Snapshots(blobs, uploads, LIMITS), blobs, uploads


async def test_the_archive_has_the_files_modes_and_links() -> None:
    code = b"print(1)"
    sha = hashlib.sha256(code).hexdigest()
    manifest = listed(
        {"path": "src/run.sh", "size": len(code), "sha256": sha, "executable": True},
        {"path": "empty", "size": 0, "sha256": hashlib.sha256(b"").hexdigest()},
        {"path": "src/link", "link": "../empty"},
    )
    snapshots, blobs, uploads = await snapshots_with(code, manifest)
    name = hashlib.sha256(manifest).hexdigest()
    archive = await snapshots.archive("lab", name, now_ms=0)
    packed = await blobs.get(uploads.key("lab", archive))
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        found = {each.name: (each.mode, each.linkname, each.size) for each in tar}
    assert found == {
        "empty": (0o644, "", 0),
        "src/link": (0o777, "../empty", 0),
        "src/run.sh": (0o755, "", len(code)),
    }
    again, _, _ = await snapshots_with(code, manifest)
    assert await again.archive("lab", name, now_ms=0) == archive


async def test_a_content_of_another_size_is_not_packed() -> None:
    manifest = listed({"path": "a", "size": 3, "sha256": SHA})
    snapshots, blobs, uploads = await snapshots_with(manifest)
    await blobs.put(uploads.key("lab", SHA), b"longer")
    with pytest.raises(BlobCorrupt):
        await snapshots.archive("lab", hashlib.sha256(manifest).hexdigest(), now_ms=0)
