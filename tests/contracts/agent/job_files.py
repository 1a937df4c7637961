"""Files for jobs of the fake server, and the files it received."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from typing import Any

from tests.contracts.agent.fake_server import FakeServer


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0)


def archive_of(server: FakeServer, files: dict[str, bytes]) -> None:
    data = packed(files)
    server.files["/file/work"] = data
    server.work["archive"] = {"url": "/file/work", "sha256": sha(data), "size": len(data)}


def saved(server: FakeServer) -> list[dict[str, Any]]:
    return [server.checkpoints[number] for number in server.committed if number in server.checkpoints]


def results(server: FakeServer) -> dict[str, bytes]:
    found = [server.artifacts[number] for number in server.committed if number in server.artifacts]
    return {one["name"]: content(server, one["file"]) for one in found}


def content(server: FakeServer, file: dict[str, Any]) -> bytes:
    return b"".join(server.blobs[chunk["sha256"]] for chunk in file["chunks"])
