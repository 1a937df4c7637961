"""Publishing: hash, offer, upload what the server lacks, commit. The same for checkpoints and artifacts."""

from __future__ import annotations

import os

from anygpu.agent.digest import BLOCK_BYTES, new_sha256
from anygpu.agent.http11 import Sized
from anygpu.agent.wire import Refused, parsed, persist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from anygpu.agent.wire import Server

CHUNK_BYTES = 256 * 2**20
ROUNDS = 5


class Piece:
    """Where a chunk lies on this machine."""

    __slots__ = ("go_on", "offset", "path", "size")

    def __init__(self, path: str, offset: int, size: int, go_on: Callable[[], None]) -> None:
        self.path, self.offset, self.size, self.go_on = path, offset, size, go_on

    def blocks(self) -> Iterator[bytes]:
        left = self.size
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            while left:
                self.go_on()
                block = file.read(min(left, BLOCK_BYTES))
                if not block:
                    raise OSError(f"{self.path} became shorter while it was read")
                left -= len(block)
                yield block


class Described:
    """A file as the server is told of it, and where each of its chunks lies. `go_on` may raise between blocks."""

    def __init__(
        self, path: str, name: str, chunk_bytes: int = CHUNK_BYTES, go_on: Callable[[], None] = lambda: None
    ) -> None:
        self._go_on = go_on
        self.pieces: dict[str, Piece] = {}
        self.file: dict[str, Any] = {"path": name, "size": 0, "chunks": []}
        whole = new_sha256()
        for offset in range(0, os.path.getsize(path), chunk_bytes):
            self._add_chunk(path, offset, chunk_bytes, whole)
        self.file["sha256"] = whole.hexdigest()

    def _add_chunk(self, path: str, offset: int, chunk_bytes: int, whole: Any) -> None:
        size = min(chunk_bytes, os.path.getsize(path) - offset)
        piece = Piece(path, offset, size, self._go_on)
        sha = new_sha256()
        for block in piece.blocks():
            sha.update(block)
            whole.update(block)
        self.pieces[sha.hexdigest()] = piece
        self.file["size"] += size
        self.file["chunks"].append({"size": size, "sha256": sha.hexdigest()})


def publish(server: Server, path: str, offer: dict[str, Any], pieces: dict[str, Piece], until: float) -> None:
    """POST the offer, PUT what is lacking, commit; again while the server says that something is missing."""
    refusal = Refused(409, {"code": "incomplete"})
    for _ in range(ROUNDS):
        answer = persist(lambda: server.call("POST", path, offer), until, server.place.rest)
        try:
            _upload(server, answer["uploads"], pieces, until)
        except Refused as error:
            refusal = error  # a signed address may have expired: offer again, and get a new one
            continue
        try:
            commit = f"{path}/{answer['id']}/commit"
            persist(lambda commit=commit: server.call("POST", commit, {}), until, server.place.rest)  # type: ignore[misc]
            return
        except Refused as error:
            if error.code != "incomplete":
                raise
            refusal = error  # a chunk was lost or damaged on the way: offering again lists it
    raise refusal


def _upload(server: Server, uploads: list[dict[str, Any]], pieces: dict[str, Piece], until: float) -> None:
    for upload in uploads:
        piece = pieces[upload["sha256"]]
        persist(lambda piece=piece, upload=upload: _put(server, upload, piece), until, server.place.rest)  # type: ignore[misc]


def _put(server: Server, upload: dict[str, Any], piece: Piece) -> None:
    method = str(upload.get("method") or "PUT")
    headers = {"Content-Type": "application/octet-stream"}
    headers.update(upload.get("headers") or {})  # some stores refuse an upload that does not say its kind
    connection = server.connection(upload["url"])
    try:
        body = Sized(piece.size, piece.blocks)
        answer = connection.request(method, "", headers, body, 120.0)
        said = answer.body()
    finally:
        connection.close()
    if answer.status >= 300:
        raise Refused(answer.status, {"detail": f"upload of {piece.size} bytes", **parsed(said)})
