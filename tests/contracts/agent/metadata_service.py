"""The metadata services of three providers, as their machines see them, on a port of this machine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-the-metadata-service"


class MetadataService:
    """Says nothing until `take_back(seconds)`."""

    def __init__(self) -> None:
        self.gone_at: float | None = None
        self.asked: list[str] = []
        self.changed = threading.Condition()
        self.port = 0

    @property
    def env(self) -> dict[str, str]:
        """What a machine's processes need to find it."""
        return {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "GCE_METADATA_HOST": f"127.0.0.1:{self.port}",
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://127.0.0.1:{self.port}",
        }

    def take_back(self, seconds: float) -> None:
        with self.changed:
            self.gone_at = time.time() + seconds
            self.changed.notify_all()

    @contextmanager
    def listening(self) -> Iterator[MetadataService]:
        service = self

        class Handler(_Handler):
            metadata = service

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                return

        http = Quiet(("127.0.0.1", 0), Handler)
        self.port = http.server_port
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield self
        finally:
            http.shutdown()
            http.server_close()
            self.take_back(0)

    def answer(self, method: str, target: str, headers: dict[str, str]) -> tuple[int, str]:
        self.asked.append(f"{method} {target}")
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        if path == "/latest/api/token":
            return (200, TOKEN) if "X-Aws-Ec2-Metadata-Token-Ttl-Seconds" in headers else (400, "")
        if path.startswith("/latest/meta-data"):
            return self._aws(headers)
        if path == "/computeMetadata/v1/instance/preempted":
            return self._google(headers, query)
        if path == "/metadata/instance/compute/name":
            return 200, "machine-1"
        if path == "/metadata/scheduledevents":
            return self._azure(headers)
        return 404, ""

    def _aws(self, headers: dict[str, str]) -> tuple[int, str]:
        if headers.get("X-Aws-Ec2-Metadata-Token") != TOKEN:
            return 401, ""
        if self.gone_at is None:
            return 404, ""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.gone_at))
        return 200, json.dumps({"action": "terminate", "time": at})

    def _google(self, headers: dict[str, str], query: dict[str, list[str]]) -> tuple[int, str]:
        if headers.get("Metadata-Flavor") != "Google":
            return 403, ""
        with self.changed:
            if query.get("wait_for_change") == ["true"]:
                self.changed.wait_for(lambda: self.gone_at is not None, float(query["timeout_sec"][0]))
            return 200, "TRUE" if self.gone_at is not None else "FALSE"

    def _azure(self, headers: dict[str, str]) -> tuple[int, str]:
        if headers.get("Metadata") != "true":
            return 400, ""
        other = {"EventId": "e1", "EventType": "Preempt", "Resources": ["machine-2"], "NotBefore": ""}
        events = [other]
        if self.gone_at is not None:
            at = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(self.gone_at))
            events.append(
                {"EventId": "e2", "EventType": "Preempt", "Resources": ["machine-1"], "NotBefore": at}
            )
        return 200, json.dumps({"DocumentIncarnation": 1, "Events": events})


class _Handler(BaseHTTPRequestHandler):
    metadata: MetadataService
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        headers = {name.title(): value for name, value in self.headers.items()}
        status, said = self.metadata.answer(self.command, self.path, headers)
        self.send_response(status)
        self.send_header("ETag", "1a2b")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said.encode())

    do_GET = do_PUT = _serve

    def log_message(self, format: str, *args: object) -> None:
        return
