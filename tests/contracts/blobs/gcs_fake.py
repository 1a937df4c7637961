"""Google Cloud Storage's XML API, as much of it as a blob store needs. It shares no code with the adapter."""

import contextlib
import hashlib
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tests.contracts.blobs.gcs_auth import Refused, ServiceAccount

BUCKET = "anygpu"
PAGE = 1000


@dataclass(frozen=True)
class Object:
    data: bytes
    at: datetime

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'


@dataclass
class Bucket:
    """Everything the fake knows."""

    account: ServiceAccount = field(default_factory=ServiceAccount)
    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, key: str, data: bytes) -> Object:
        with self.lock:
            self.objects[key] = Object(data, datetime.now(UTC))
            return self.objects[key]


class Handler(BaseHTTPRequestHandler):
    bucket: Bucket
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            self.bucket.account.check(self.command, self.path, headers)
        except (Refused, ValueError, KeyError) as error:
            return self.answer(403, f"<Error><Code>AccessDenied</Code><Message>{error}</Message></Error>")
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path.lstrip("/")).partition("/")
        if bucket != BUCKET:
            return self.answer(404, "<Error><Code>NoSuchBucket</Code></Error>")
        return self.route(key, query, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def route(self, key: str, query: dict[str, str], body: bytes) -> None:
        if self.command in ("GET", "HEAD"):
            return self.read(key) if key else self.list(query)
        if self.command == "DELETE":
            return self.delete(key, query)
        if copied := self.headers.get("x-goog-copy-source"):
            return self.copy(key, unquote(copied).removeprefix(f"{BUCKET}/"))
        if "uploads" in query:
            return self.begin(key)
        if "uploadId" in query:
            return self.part(query, body) if self.command == "PUT" else self.complete(key, query, body)
        return self.answer(200, headers={"ETag": self.bucket.put(key, body).etag})

    def read(self, key: str) -> None:
        found = self.bucket.objects.get(key)
        if found is None:
            return self.answer(404, "<Error><Code>NoSuchKey</Code></Error>")
        headers = {"ETag": found.etag, "Last-Modified": format_datetime(found.at, usegmt=True)}
        if "Range" not in self.headers:
            return self.answer(200, found.data, headers)
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        start, size = int(first), len(found.data)
        if start >= size:
            return self.answer(
                416, "<Error><Code>InvalidRange</Code></Error>", {"Content-Range": f"bytes */{size}"}
            )
        end = min(int(last) + 1, size) if last else size
        return self.answer(
            206, found.data[start:end], {**headers, "Content-Range": f"bytes {start}-{end - 1}/{size}"}
        )

    def list(self, query: dict[str, str]) -> None:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", query.get("start-after", ""))
        with self.bucket.lock:
            names = sorted(name for name in self.bucket.objects if name.startswith(prefix) and name > after)
            contents = "".join(_content(name, self.bucket.objects[name]) for name in names[:PAGE])
        token = (
            f"<NextContinuationToken>{escape(names[PAGE - 1])}</NextContinuationToken>"
            if names[PAGE:]
            else ""
        )
        self.answer(200, f"<ListBucketResult>{contents}{token}</ListBucketResult>")

    def copy(self, key: str, source: str) -> None:
        found = self.bucket.objects.get(source)
        if found is None:
            return self.answer(404, "<Error><Code>NoSuchKey</Code></Error>")
        etag = self.bucket.put(key, found.data).etag
        return self.answer(200, f"<CopyObjectResult><ETag>{etag}</ETag></CopyObjectResult>")

    def begin(self, key: str) -> None:
        upload = uuid.uuid4().hex
        self.bucket.uploads[upload] = {}
        names = f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{upload}</UploadId>"
        self.answer(200, f"<InitiateMultipartUploadResult>{names}</InitiateMultipartUploadResult>")

    def part(self, query: dict[str, str], body: bytes) -> None:
        self.bucket.uploads[query["uploadId"]][int(query["partNumber"])] = body
        self.answer(200, headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def complete(self, key: str, query: dict[str, str], body: bytes) -> None:
        parts = self.bucket.uploads.pop(query["uploadId"])
        wanted = [
            int(number.text or 0) for number in ElementTree.fromstring(body).iterfind(".//{*}PartNumber")
        ]
        found = self.bucket.put(key, b"".join(parts[number] for number in wanted))
        self.answer(
            200, f"<CompleteMultipartUploadResult><ETag>{found.etag}</ETag></CompleteMultipartUploadResult>"
        )

    def delete(self, key: str, query: dict[str, str]) -> None:
        if "uploadId" in query:
            found: object = self.bucket.uploads.pop(query["uploadId"], None)
        else:
            found = self.bucket.objects.pop(key, None)
        self.answer(204 if found is not None else 404)

    def answer(self, status: int, body: str | bytes = b"", headers: dict[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Silent."""


def _content(name: str, found: Object) -> str:
    at = found.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    fields = f"<Key>{escape(name)}</Key><LastModified>{at}</LastModified><ETag>{found.etag}</ETag>"
    return f"<Contents>{fields}<Size>{len(found.data)}</Size></Contents>"


@contextlib.contextmanager
def serving_gcs() -> Iterator[dict[str, object]]:
    """Options for `open_blobs("gs://anygpu/…")`."""
    bucket = Bucket()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"bucket": bucket}))
    server.daemon_threads = True  # idle connections stay open until the client goes
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    base_url = f"http://127.0.0.1:{server.server_port}"
    try:
        key = bucket.account.to_json(base_url)
        yield {"service_account_key": key, "base_url": base_url, "client": {"allow_http": True}}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
