"""Upload checkpoints and artifacts in the background."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

from anygpu.agent.checkpoints import snapshot
from anygpu.agent.checkpoints.snapshot import discard_snapshot, find_files, snapshot_files
from anygpu.agent.checkpoints.steps import StepLabel
from anygpu.agent.files import BLOCK_BYTES, new_sha256
from anygpu.agent.link.client import RequestRefused, parse_body, retry_until
from anygpu.agent.link.http11 import StreamBody, Unreachable
from anygpu.job import DIRECTORY_MARK, open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from anygpu.agent.attempt_dir import JobDirectories
    from anygpu.agent.link.client import ServerClient
    from anygpu.agent.link.orders import ServerOrders

    MakeSnapshot = Callable[[], str]

CHUNK_BYTES = 256 * 2**20
MAX_ROUNDS = 5
COMMIT_TIMEOUT_S, MAX_COMMIT_TIMEOUT_S = 30.0, 1800.0
VERIFIED_BYTES_PER_S = 25_000_000  # at least, when the server reads an upload back from its store


class UnreadableFile(Exception):
    """A local file cannot be read, so a retry does not help.

    Not an OSError: one that is raised while a request is sent counts as a lost connection.
    """


class ChunkRefused(RequestRefused):
    """A bucket, or a server that stores files, refused a chunk. This says nothing about the attempt."""

    @property
    def is_rejection(self) -> bool:
        return False


class FileChunk:
    """A range of bytes of a local file, uploaded in one request.

    `before_block` is called before each block is read; it may raise to stop the upload.
    """

    __slots__ = ("before_block", "offset", "path", "size")

    def __init__(self, path: str, offset: int, size: int, before_block: Callable[[], None]) -> None:
        self.path, self.offset, self.size, self.before_block = path, offset, size, before_block

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes. Raise `UnreadableFile` if they cannot be read."""
        try:
            yield from self._read_blocks()
        except OSError as error:
            raise UnreadableFile(f"{self.path} cannot be read: {error}") from error

    def _read_blocks(self) -> Iterator[bytes]:
        left = self.size
        with open(open_regular(self.path, os.O_NOFOLLOW), "rb") as file:
            file.seek(self.offset)
            while left:
                self.before_block()
                block = file.read(min(left, BLOCK_BYTES))
                if not block:
                    raise UnreadableFile(
                        f"the script made {self.path} shorter while the agent was uploading it. Write to a new "
                        "file and rename it"
                    )
                left -= len(block)
                yield block


class FileDescription:
    """A local file with its size, SHA-256 and chunks, in the form that the server expects."""

    def __init__(
        self,
        path: str,
        name: str,
        chunk_bytes: int = CHUNK_BYTES,
        before_block: Callable[[], None] = lambda: None,
    ) -> None:
        self._before_block = before_block
        self.chunks: dict[str, FileChunk] = {}
        self.file: dict[str, Any] = {"path": name, "size": 0, "chunks": []}
        size, whole = os.path.getsize(path), new_sha256()
        if size <= chunk_bytes:  # the only chunk is the whole file: its bytes are hashed once
            self._add_chunk(path, 0, size, [whole])
        else:
            for offset in range(0, size, chunk_bytes):
                self._add_chunk(path, offset, min(chunk_bytes, size - offset), [new_sha256(), whole])
        self.file["sha256"] = whole.hexdigest()

    def _add_chunk(self, path: str, offset: int, size: int, hashes: list[Any]) -> None:
        """Add a chunk, and its bytes to all hashes. The first hash is that of the chunk."""
        if not size:
            return
        chunk = FileChunk(path, offset, size, self._before_block)
        for block in chunk.blocks():
            for each in hashes:
                each.update(block)
        sha256 = hashes[0].hexdigest()
        self.chunks[sha256] = chunk
        self.file["size"] += size
        self.file["chunks"].append({"size": size, "sha256": sha256})


def publish(
    server: ServerClient,
    path: str,
    offer: dict[str, Any],
    chunks: dict[str, FileChunk],
    until: float,
    on_progress: Callable[[], None] = lambda: None,
) -> None:
    """Upload a checkpoint or artifact, and commit it.

    POSTs `offer`, a description of the files, to `path`. The server answers with signed URLs for the chunks
    that it does not have yet; these chunks are uploaded, then the upload is committed. If a URL has expired
    or the server still lacks a chunk, everything starts again with a new POST. Stops at `until` (monotonic
    clock). Calls `on_progress` after each chunk and before the commit.
    """
    refusal = RequestRefused(409, {"code": "incomplete"})
    verified_in_s = sum(chunk.size for chunk in chunks.values()) / VERIFIED_BYTES_PER_S
    timeout_s = min(COMMIT_TIMEOUT_S + verified_in_s, MAX_COMMIT_TIMEOUT_S)
    for _ in range(MAX_ROUNDS):
        response = retry_until(lambda: server.call("POST", path, offer), until, server.address.wait)
        try:
            _upload_chunks(server, response["uploads"], chunks, until, on_progress)
        except RequestRefused as error:
            refusal = error  # a signed URL may have expired: a new offer returns new URLs
            continue
        on_progress()
        try:
            commit = partial(server.call, "POST", f"{path}/{response['id']}/commit", {}, timeout_s)
            retry_until(commit, until, server.address.wait)
            return
        except RequestRefused as error:
            if error.code != "incomplete":
                raise
            refusal = error  # a chunk was lost or damaged: a new offer lists it again
    raise refusal


def _upload_chunks(
    server: ServerClient,
    uploads: list[dict[str, Any]],
    chunks: dict[str, FileChunk],
    until: float,
    on_progress: Callable[[], None],
) -> None:
    for upload in uploads:
        put = partial(_put_chunk, server, upload, chunks[upload["sha256"]])
        retry_until(put, until, server.address.wait)
        on_progress()


def _put_chunk(server: ServerClient, upload: dict[str, Any], chunk: FileChunk) -> None:
    method = str(upload.get("method") or "PUT")
    headers = {"Content-Type": "application/octet-stream"}
    headers.update(upload.get("headers") or {})  # some stores refuse uploads without a Content-Type
    connection = server.open_connection(upload["url"])
    try:
        body = StreamBody(chunk.size, chunk.blocks)
        response = connection.request(method, "", headers, body, 120.0)
        content = response.body()
    finally:
        connection.close()
    if response.status >= 300:
        raise ChunkRefused(
            response.status,
            {
                "detail": f"the bucket or server that stores files refused an upload of {chunk.size} bytes; check the "
                "storage settings of the server",
                **parse_body(content),
            },
        )


REPORT_WAIT_S = 2.0


class UploadPostponed(Exception):
    """Raised to interrupt the upload of an artifact, because a checkpoint must be uploaded first."""


class PendingUpload:
    """A waiting upload: an artifact if `name` is set, else a checkpoint.

    `make_snapshot` is called in the uploader's thread if there is no `snapshot` yet.
    """

    __slots__ = ("after_seq", "at", "failed", "key", "label", "make_snapshot", "name", "prefix", "snapshot")

    def __init__(
        self,
        key: str,
        snapshot: str | None = None,
        make_snapshot: MakeSnapshot | None = None,
        label: StepLabel | None = None,
        prefix: str = "",
        name: str | None = None,
        after_seq: int = 0,
    ) -> None:
        """Create an upload.

        A checkpoint is uploaded once the server has stored report number `after_seq`, or after REPORT_WAIT_S.
        So the server normally has the metrics of the steps before a checkpoint when the checkpoint arrives.
        """
        self.key = key
        self.after_seq = after_seq
        self.snapshot = snapshot
        self.make_snapshot = make_snapshot
        self.failed = False
        self.label = label or StepLabel(0)
        self.prefix = prefix
        self.name = name
        self.at = time.time()

    @property
    def description(self) -> str:
        return f"the checkpoint of step {self.label.step}" if self.name is None else self.name


class BackgroundUploader:
    """Uploads checkpoints and artifacts in a thread, one at a time.

    A new upload replaces a waiting upload with the same key.
    """

    def __init__(
        self,
        connect: Callable[[], ServerClient],
        orders: ServerOrders,
        world_size: int,
        acked_seq: Callable[[], int],
    ) -> None:
        self._acked_seq = acked_seq
        self._connect = connect
        self._orders = orders
        self._world_size = world_size
        self._waiting: dict[str, PendingUpload] = {}
        self._active: PendingUpload | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self.deadline = float("inf")
        self._has_deadline = False
        self.gave_up = False  # an upload failed because there was not enough time
        self.progress_at = time.monotonic()  # when a chunk or an upload was completed last
        self.problems: list[str] = []
        self.published: dict[str, str] = {}

    def add(self, upload: PendingUpload) -> None:
        with self._changed:
            older = self._waiting.pop(upload.key, None)
            self._waiting[upload.key] = upload
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="uploader", daemon=True)
                self._thread.start()
        if older is not None:
            discard_snapshot(older.snapshot)

    def set_deadline(self, deadline: float) -> None:
        """Stop uploading at `deadline` (monotonic clock).

        From now on checkpoints are uploaded before artifacts, and the newest checkpoint first.
        """
        with self._changed:
            self.deadline = deadline
            self._has_deadline = True

    def is_idle(self) -> bool:
        with self._changed:
            return not self._waiting and self._active is None

    def unfinished(self) -> list[str]:
        """Return descriptions of the uploads that are not completed."""
        with self._changed:
            active = [self._active] if self._active is not None else []
            return [upload.description for upload in [*active, *self._waiting.values()]]

    def wait(self, seconds: float) -> None:
        with self._changed:
            if self._waiting or self._active is not None:
                self._changed.wait(seconds)

    def _run(self) -> None:
        server = self._connect()
        while True:
            upload = self._take_next()
            try:
                self._publish(server, upload)
                self._record_progress()
            except (OSError, UnreadableFile, Unreachable, KeyError, TypeError, ValueError) as error:
                self._record_failure(upload, f"could not be uploaded: {error}")
            except RequestRefused as refusal:
                if refusal.is_rejection:
                    self._orders.reject(refusal)
                self._record_failure(upload, f"was refused: {refusal}")
            except UploadPostponed:
                with self._changed:
                    self._waiting.setdefault(upload.key, upload)
            with self._changed:
                self._active = None
                self._changed.notify_all()

    def _record_progress(self) -> None:
        self.progress_at = time.monotonic()

    def _record_failure(self, upload: PendingUpload, problem: str) -> None:
        upload.failed = True
        self.gave_up = self.gave_up or self._has_deadline
        self.problems.append(f"{upload.description} {problem}")

    def _take_next(self) -> PendingUpload:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            self._active = self._waiting.pop(self._next_key())
            return self._active

    def _next_key(self) -> str:
        if not self._has_deadline:
            return next(iter(self._waiting))
        return min(
            self._waiting, key=lambda key: (self._waiting[key].name is not None, -self._waiting[key].at)
        )

    def _postpone_for_checkpoint(self) -> None:
        """Raise `UploadPostponed` if there is a deadline and a checkpoint waits to be uploaded."""
        with self._changed:
            if self._has_deadline and any(upload.name is None for upload in self._waiting.values()):
                raise UploadPostponed

    def _publish(self, server: ServerClient, upload: PendingUpload) -> None:
        snapshot = upload.snapshot or (upload.make_snapshot() if upload.make_snapshot is not None else None)
        if snapshot is None:
            return
        try:
            if upload.name is None:
                self._publish_checkpoint(server, upload, snapshot)
            else:
                self._publish_artifact(server, upload.name, snapshot)
        except UploadPostponed:
            upload.snapshot = snapshot
            raise
        except BaseException:
            discard_snapshot(snapshot)
            raise
        discard_snapshot(snapshot)

    def _publish_checkpoint(self, server: ServerClient, upload: PendingUpload, snapshot: str) -> None:
        described = [FileDescription(path, upload.prefix + name) for name, path in snapshot_files(snapshot)]
        if not described:
            return
        label = upload.label
        offer = {
            "step": max(0, label.step),
            **({"unit": label.unit} if label.unit else {}),
            **({"epoch": max(0, label.epoch)} if label.epoch is not None else {}),
            "at": upload.at,
            "world_size": self._world_size,
            "files": [file.file for file in described],
        }
        self._wait_for_report(upload.after_seq)
        chunks = _chunks_by_hash(described)
        publish(server, "/agent/v1/checkpoints", offer, chunks, self.deadline, self._record_progress)

    def _wait_for_report(self, seq: int) -> None:
        """Wait until the server has stored report number `seq`, at most REPORT_WAIT_S."""
        give_up_at = min(time.monotonic() + REPORT_WAIT_S, self.deadline)
        while self._acked_seq() < seq and time.monotonic() < give_up_at:
            time.sleep(0.005)

    def _publish_artifact(self, server: ServerClient, name: str, snapshot: str) -> None:
        for relative, path in snapshot_files(snapshot):
            if os.path.basename(relative) == DIRECTORY_MARK:
                continue
            inner = relative.partition("/")[2]
            full_name = f"{name}/{inner}" if inner else name
            described = FileDescription(path, full_name, before_block=self._postpone_for_checkpoint)
            if self.published.get(full_name) != described.file["sha256"]:
                offer = {"name": full_name, "file": described.file}
                chunks = described.chunks
                publish(server, "/agent/v1/artifacts", offer, chunks, self.deadline, self._record_progress)
                self.published[full_name] = described.file["sha256"]


def _chunks_by_hash(described: list[FileDescription]) -> dict[str, Any]:
    return {sha: chunk for file in described for sha, chunk in file.chunks.items()}


def upload_outputs(
    directories: JobDirectories,
    patterns: list[str],
    snapshots: str,
    uploader: BackgroundUploader,
    started_s: float,
    results: list[str],
) -> None:
    """Upload the output files of the job as artifacts.

    These are the files that match the spec's `outputs` patterns, the files in `results` (names in the working
    directory), and the files in ANYGPU_OUTPUT_DIR. The name of an artifact is its relative path. If several
    have the same name, the one in ANYGPU_OUTPUT_DIR is uploaded. If the job ran in place, only files written
    since its start (`started_s`, Unix time) are uploaded.
    """
    since_ns = started_s * 1e9 if directories.in_place else 0
    found = find_files(directories.cwd, patterns)
    roots = {name: directories.cwd for name, status in found.items() if status.st_mtime_ns >= since_ns}
    roots.update(dict.fromkeys(results, directories.cwd))
    roots.update(dict.fromkeys(find_files(directories.outputs, ["**", ".*"]), directories.outputs))
    for number, (name, root) in enumerate(sorted(roots.items())):
        take = _snapshot_maker(root, name, os.path.join(snapshots, f"output-{number}"))
        uploader.add(PendingUpload(f"artifact {name}", make_snapshot=take, name=name))


def _snapshot_maker(root: str, name: str, target: str) -> Callable[[], str]:
    """Return a function that copies file `name` to directory `target`, without the directories in `name`.

    The name of the artifact contains these directories already.
    """

    def take() -> str:
        folder, base = os.path.split(os.path.join(root, name))
        return snapshot.take_snapshot(folder, [base], target, {base})

    return take
