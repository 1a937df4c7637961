"""How the agent describes a file to the server: its size, its hash and its chunks."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from tests.unit.agent.link.test_sender import AnsweringServer

from anygpu.agent.checkpoints.upload import FileChunk, FileDescription, publish
from anygpu.agent.link.client import ServerClient


def hash_of(data: bytes) -> str:
    return sha256(data).hexdigest()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"abc", id="one chunk"),
        pytest.param(b"abcd", id="exactly one chunk"),
        pytest.param(b"abcdefghij", id="three chunks"),
        pytest.param(b"abcdabcd", id="equal chunks"),
    ],
)
def test_a_file_is_described_by_its_hash_and_the_hashes_of_its_chunks(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    parts = [data[offset : offset + 4] for offset in range(0, len(data), 4)]
    described = FileDescription(str(path), "weights/model.bin", chunk_bytes=4)
    assert described.file == {
        "path": "weights/model.bin",
        "size": len(data),
        "sha256": hash_of(data),
        "chunks": [{"size": len(part), "sha256": hash_of(part)} for part in parts],
    }
    stored = {name: b"".join(chunk.blocks()) for name, chunk in described.chunks.items()}
    assert stored == {hash_of(part): part for part in parts}


def test_the_commit_of_a_large_upload_may_take_longer() -> None:
    """The server reads it back before it answers."""
    server = AnsweringServer()
    server.intercept = lambda path: (200, b'{"id": "c1", "uploads": []}')
    for size in (1000, 2_500_000_000):
        chunk = FileChunk("m.pt", 0, size, lambda: None)
        publish(ServerClient(server), "/agent/v1/checkpoints", {}, {"sha": chunk}, float("inf"))
    assert server.paths.count("/agent/v1/checkpoints/c1/commit") == 2
    assert [round(each) for each in server.timeouts_s] == [30, 30, 30, 130]


def test_each_chunk_and_the_beginning_of_the_commit_count_as_progress(tmp_path: Path) -> None:
    server = AnsweringServer()
    path = tmp_path / "model.bin"
    path.write_bytes(b"abcdefgh")
    chunks = FileDescription(str(path), "model.bin", chunk_bytes=4).chunks
    plan = {"id": "c1", "uploads": [{"sha256": sha, "url": "http://bucket/x"} for sha in chunks]}
    server.intercept = lambda path: (200, json.dumps(plan).encode())
    progress: list[int] = []
    publish(
        ServerClient(server),
        "/agent/v1/checkpoints",
        {},
        chunks,
        float("inf"),
        lambda: progress.append(len(server.paths)),
    )
    assert progress == [2, 3, 3]
