"""A tiny server that honours the local store's URLs, as the real one does."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from anygpu.errors import BlobMissing, Forbidden
from anygpu.store.blobs.local import LocalBlobs
from anygpu.store.blobs.signing import UrlGrant, verify_url

SECRET = b"the server's own key, 32 bytes.."


class Handler(BaseHTTPRequestHandler):
    blobs: LocalBlobs

    def do_GET(self) -> None:
        try:
            self.answer(200, asyncio.run(self.blobs.get(self.granted().key)))
        except BlobMissing:
            self.answer(404)
        except Forbidden:
            self.answer(403)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            grant = self.granted()
        except Forbidden:
            return self.answer(403)
        if grant.max_size is not None and len(body) > grant.max_size:
            return self.answer(413)
        asyncio.run(self.blobs.put(grant.key, body))
        return self.answer(201)

    def granted(self) -> UrlGrant:
        parts = urlsplit(self.path)
        key = unquote(parts.path.removeprefix("/blobs/"))
        return verify_url(self.command, key, dict(parse_qsl(parts.query)), now=time.time(), secret=SECRET)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@contextlib.contextmanager
def serving_local(blobs: LocalBlobs) -> Iterator[None]:
    handler = type("Handler", (Handler,), {"blobs": blobs})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        blobs.base_url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
