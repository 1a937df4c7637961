"""A small HTTP server that follows docs/reference/agent-protocol.md, with faults on demand."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

# "drop": applied but not answered; "500": not applied; "cut": closed before anything is applied; a number: a proxy
# answers with this status
Fault = str | int | None


class FakeServer:
    """Keeps what it acknowledged, once, and holds the attempt's orders."""

    def __init__(self, work: dict[str, Any], **assignment: Any) -> None:
        self.work = {"argv": None, "grace_s": 2, **work}
        self.assignment = {
            "lease_s": 30,
            "heartbeat_s": 1,
            "report_every_s": 0.05,
            "telemetry_every_s": 60,
            **assignment,
        }
        self.token = "token-of-the-attempt"
        # Of its own: an agent ends every process that bears its name, other tests' too.
        self.name = f"anygpu-{os.urandom(16).hex()}-1"
        self.claimant: str | None = None
        self.expected = 1
        self.frames: list[dict[str, Any]] = []
        self.arrived_at: list[float] = []
        self.log = bytearray()
        self.orders: list[dict[str, Any]] = []
        self.version = 1
        self.requests: list[tuple[str, str]] = []
        self.blobs: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.checkpoints: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.committed: list[str] = []
        self.end: dict[str, Any] | None = None
        self.other_nodes_run = False  # when the agent sends its end
        self.departures: list[dict[str, Any]] = []
        self.readiness: list[dict[str, Any]] = []
        self.lets_nodes_start = True
        self.rejecting: int | None = None
        self.urls: list[str] = []  # as an answer of several servers lists them
        self.upload_base = ""  # the address in the URLs of uploads
        self.fault: Callable[[str, int], Fault] = lambda path, count: None
        self.changed = threading.Condition()
        self._connections: list[socket.socket] = []
        self._ids = itertools.count(1)
        self._http: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def listening(self) -> Iterator[FakeServer]:
        self.listen()
        try:
            yield self
        finally:
            self.stop()

    def listen(self) -> None:
        server = self

        class Handler(_Handler):
            playing = server

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def process_request(self, request: Any, client_address: Any) -> None:
                server._connections.append(request)
                super().process_request(request, client_address)

            def handle_error(self, request: object, client_address: object) -> None:
                return

        self._http = Quiet(("127.0.0.1", self.port), Handler)
        self.port = self._http.server_port
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from now on, and cut those that are open."""
        if self._http is None:
            return
        http, self._http = self._http, None
        http.shutdown()
        http.server_close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()
        with self.changed:
            self.changed.notify_all()

    def ticket(self) -> dict[str, Any]:
        return {"protocol": 1, "url": self.url, "name": self.name, "ticket": "one-time"}

    def order(self, *orders: dict[str, Any]) -> None:
        with self.changed:
            self.orders, self.version = list(orders), self.version + 1
            self.changed.notify_all()

    def wait_for(self, truth: Callable[[], bool], timeout_s: float = 60.0) -> None:
        with self.changed:
            assert self.changed.wait_for(truth, timeout_s), (
                f"never came true; log so far: {bytes(self.log)!r}"
            )

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["kind"] == kind]

    def points(self) -> list[list[Any]]:
        return [point for frame in self.of_kind("metrics") for point in frame["points"]]

    def answer(self, method: str, target: str, body: bytes, token: str) -> tuple[int, Any]:
        split = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        if split.path.startswith("/blob/"):
            return self._blob(method, split.path, body)
        if split.path.startswith("/file/"):
            return 200, self.files[split.path]
        if split.path == "/agent/v1/claim":
            return self._claim(json.loads(body))
        if self.rejecting is None and not token:
            return 401, {"code": "unauthorized", "title": "there is no token"}
        if self.rejecting is not None or token != f"Bearer {self.token}":
            return self.rejecting or 401, {"code": "unknown_token", "title": "who are you"}
        return self._handle_authenticated(split.path, query, body)

    def _handle_authenticated(self, path: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
        if path == "/agent/v1/reports":
            return self._reports(body, query)
        if path == "/agent/v1/heartbeat":
            return 200, self._state()
        if path == "/agent/v1/orders":
            return self._long_poll(int(query["after"]), float(query["wait_s"]))
        if path == "/agent/v1/end":
            return self._end(json.loads(body))
        if path == "/agent/v1/ready":
            return self._ready(json.loads(body))
        if path == "/agent/v1/leave":
            return self._leave(json.loads(body))
        kind, _, rest = path.removeprefix("/agent/v1/").partition("/")
        store = self.checkpoints if kind == "checkpoints" else self.artifacts
        if rest:
            return self._commit(store, rest.removesuffix("/commit"))
        return self._offer(store, json.loads(body))

    def _state(self) -> dict[str, Any]:
        state = {"acked": self.expected - 1, "lease_s": self.assignment["lease_s"], "orders": self.orders}
        return {**state, "urls": self.urls} if self.urls else state

    def _claim(self, request: dict[str, Any]) -> tuple[int, Any]:
        if self.claimant not in (None, request["claimant"]):
            return 409, {"code": "claimed", "title": "another machine was first"}
        self.claimant = request["claimant"]
        said = {"protocol": 1, "token": self.token, "job_id": "job-1", "attempt": 1, "name": self.name}
        return 200, {**said, **self.assignment, "work": self.work}

    def _reports(self, body: bytes, query: dict[str, str]) -> tuple[int, Any]:
        with self.changed:
            if int(query["first"]) > self.expected:
                return 409, {"code": "gap", "expected": self.expected}
            seen = [self._store(header, payload) for header, payload in split_frames(body)]
            assert (seen[0], seen[-1]) == (int(query["first"]), int(query["last"]))
            self.changed.notify_all()
            return 200, self._state()

    def _store(self, header: dict[str, Any], payload: bytes) -> int:
        if header["seq"] == self.expected:
            self.expected += 1
            self.frames.append(header)
            self.arrived_at.append(time.monotonic())
            self.log += payload if header["kind"] == "log" else b""
        return int(header["seq"])

    def _long_poll(self, after: int, wait_s: float) -> tuple[int, Any]:
        with self.changed:
            self.changed.wait_for(lambda: self.version != after or self._http is None, wait_s)
            return 200, {"version": self.version, **self._state()}

    def _offer(self, store: dict[str, dict[str, Any]], request: dict[str, Any]) -> tuple[int, Any]:
        with self.changed:
            number = f"{'c' if store is self.checkpoints else 'a'}{next(self._ids)}"
            store[number] = request
            uploads = [
                {"sha256": sha, "url": f"{self.upload_base}/blob/{sha}", "method": "PUT"}
                for sha in _chunks(request)
                if sha not in self.blobs
            ]
            return 200, {"id": number, "uploads": uploads}

    def _commit(self, store: dict[str, dict[str, Any]], number: str) -> tuple[int, Any]:
        with self.changed:
            missing = [sha for sha in _chunks(store[number]) if sha not in self.blobs]
            if missing:
                uploads = [{"sha256": sha, "url": f"/blob/{sha}", "method": "PUT"} for sha in missing]
                return 409, {"code": "incomplete", "uploads": uploads}
            if number not in self.committed:
                self.committed.append(number)
            self.changed.notify_all()
            return 200, {"ok": True}

    def _blob(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        sha = path.removeprefix("/blob/")
        if method == "GET":
            return 200, self.blobs[sha]
        if hashlib.sha256(body).hexdigest() != sha:
            return 400, {"code": "damaged"}
        self.blobs[sha] = body
        return 200, {}

    def _end(self, request: dict[str, Any]) -> tuple[int, Any]:
        with self.changed:
            self.end = self.end or request
            self.changed.notify_all()
            return 200, {"ok": True, "wait": self.other_nodes_run}

    def _ready(self, request: dict[str, Any]) -> tuple[int, Any]:
        with self.changed:
            self.readiness.append(request)
            self.changed.notify_all()
        if not self.lets_nodes_start:
            return 409, {"code": "superseded", "title": "the attempt has ended"}
        return 200, {"start": True, "missing": [], "master_addr": "127.0.0.1", "master_port": 1}

    def _leave(self, request: dict[str, Any]) -> tuple[int, Any]:
        with self.changed:
            self.departures.append(request)
            self.changed.notify_all()
            return 200, {"ok": True}


def _chunks(request: dict[str, Any]) -> list[str]:
    files = request.get("files") or [request["file"]]
    return list(dict.fromkeys(chunk["sha256"] for file in files for chunk in file["chunks"]))


def split_frames(body: bytes) -> Iterator[tuple[dict[str, Any], bytes]]:
    while body:
        line, _, body = body.partition(b"\n")
        header = json.loads(line)
        size = header.get("n", 0)
        assert len(body) >= size, "a torn frame was sent"
        yield header, body[:size]
        body = body[size:]


class _Handler(BaseHTTPRequestHandler):
    playing: FakeServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        self.playing.requests.append((self.command, path))
        count = sum(1 for _, asked in self.playing.requests if asked == path)
        fault = self.playing.fault(path, count)
        if fault == "cut":
            self.close_connection = True
            return
        if fault == "500":
            self._send(500, {"code": "internal", "title": "a fault on demand"})
            return
        if isinstance(fault, int):
            self._send(fault, b"<html>an answer of a proxy</html>")
            return
        status, said = self.playing.answer(
            self.command, self.path, body, self.headers.get("Authorization", "")
        )
        if fault == "drop":
            self.close_connection = True
            return
        self._send(status, said)

    def _send(self, status: int, said: Any) -> None:
        data = said if isinstance(said, bytes) else json.dumps(said).encode()
        start = int((self.headers.get("Range") or "bytes=0-")[6:].partition("-")[0])
        self.send_response(206 if start and status == 200 else status)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:])

    do_GET = do_POST = do_PUT = _serve

    def log_message(self, format: str, *args: object) -> None:
        return
