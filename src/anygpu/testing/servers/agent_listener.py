"""An HTTP server that answers agents, to test backends without the real server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of agents that were killed while they waited for a response."""


class AgentListener:
    """A server that gives every agent the same assignment, and records the claims, reports and ends it receives."""

    def __init__(self, work: dict[str, Any]) -> None:
        self.work = {**NO_WORK, **work}
        self.claims: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.output = bytearray()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "AgentListener":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        route = urlsplit(path)
        if route.path.endswith("/claim"):
            return self._answer_claim(json.loads(body))
        if route.path.endswith("/orders"):
            self._closing.wait(timeout=float(parse_qs(route.query).get("wait_s", ["1"])[0]))
            return {"version": 0, "orders": [], "lease_s": 60}
        if route.path.endswith("/end"):
            self.ends.append(json.loads(body))
            return {"ok": True}
        if route.path.endswith("/reports"):
            self.output += body
            return {"acked": int(parse_qs(route.query)["last"][0]), "lease_s": 60, "orders": []}
        return {"acked": 0, "lease_s": 60, "orders": []}

    def _answer_claim(self, claim: dict[str, Any]) -> dict[str, Any]:
        self.claims.append(claim)
        return {
            "protocol": 1,
            "token": "token",
            "job_id": "job",
            "attempt": 1,
            "name": claim["ticket"],
            "lease_s": 60,
            "heartbeat_s": 5,
            "report_every_s": 0.05,
            "telemetry_every_s": 60,
            "work": self.work,
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                answer = json.dumps(listener.answer(self.path, body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST

            def log_message(self, format: str, *args: object) -> None:
                """Print no access log."""

        return Handler


NO_WORK: dict[str, Any] = {
    "argv": None,
    "shell": None,
    "code": None,
    "python": None,
    "env": {},
    "secrets": {},
    "archive": None,
    "subdir": "",
    "requirements": [],
    "setup": [],
    "dataset": None,
    "outputs": [],
    "checkpoint": {"paths": [], "every_s": 300, "keep": 3, "resume_args": []},
    "resume": None,
    "timeout_s": None,
    "grace_s": 1,
    "log_line_limit": 65536,
    "spool_limit_bytes": 1 << 20,
}
