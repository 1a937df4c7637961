"""The server process: files, lock, start and end."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.acceptance.server.real_server import Server
from websockets.sync.client import connect


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_files_are_readable_by_their_owner_only(new_server: Callable[..., Server]) -> None:
    server = new_server()
    assert mode(server.state) == 0o700
    for name in ("token", "signing.key", "server.json"):
        assert mode(server.state / name) == 0o600, name
    told = json.loads((server.state / "server.json").read_text())
    assert (told["url"], told["agent_url"], told["pid"]) == (server.url, server.agent_url, server.process.pid)
    assert server.stop() == 0
    assert not (server.state / "server.json").exists()


def test_a_second_server_names_the_one_that_uses_the_state(new_server: Callable[..., Server]) -> None:
    server = new_server()
    command = [sys.executable, "-m", "anygpu.server", "--state", str(server.state), "--port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode == 1
    assert str(server.process.pid) in second.stderr
    assert server.url in second.stderr
    assert "Traceback" not in second.stderr
    assert server.ask("GET", "/readyz").status == 200


def test_a_port_in_use_is_named(new_server: Callable[..., Server], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "anygpu.server", "--state", str(tmp_path / "x"), "--port", port]
        failed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert failed.returncode == 1
    assert port in failed.stderr
    assert "Traceback" not in failed.stderr


def test_after_a_kill_the_agent_listener_has_the_same_port(new_server: Callable[..., Server]) -> None:
    server = new_server()
    token, agent_url = server.token, server.agent_url
    server.process.kill()
    server.process.wait()
    server.stop()
    server.start()
    assert (server.token, server.agent_url) == (token, agent_url)


def test_sigterm_with_open_streams_ends_in_time(new_server: Callable[..., Server]) -> None:
    server = new_server()
    job_id = server.submit(code="while True: print('x' * 5000)")
    server.wait(job_id, lambda job: job["phase"] == "training")
    watching = [_abandon(server, f"/api/v1/training/{job_id}/stream") for _ in range(10)]
    watching += [_abandon(server, "/api/v1/stream") for _ in range(10)]
    url = server.url.replace("http", "ws", 1)
    headers = {"Authorization": f"Bearer {server.token}"}
    for path in (f"/api/v1/training/{job_id}/stream", "/api/v1/stream"):
        watching += [
            socket.socket(fileno=connect(url + path, additional_headers=headers, proxy=None).socket.detach())
            for _ in range(5)
        ]
    time.sleep(1)  # the sockets nobody reads are full by now
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    server.wait_ended(job_id)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    for each in watching:
        each.close()


def _abandon(server: Server, path: str) -> socket.socket:
    parts = urlsplit(server.url)
    raw = socket.create_connection((parts.hostname, parts.port))
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    raw.sendall(head.encode())
    return raw


def test_a_second_signal_ends_the_server_at_once(new_server: Callable[..., Server]) -> None:
    server = new_server(ANYGPU_SERVER__SHUTDOWN_GRACE_S="300")
    held = _abandon(server, "/api/v1/stream")
    assert held.recv(65536).startswith(b"HTTP/1.1 200")
    raw = http.client.HTTPConnection(urlsplit(server.url).netloc)
    raw.putrequest("PUT", f"/api/v1/uploads/{'0' * 64}")
    raw.putheader("Authorization", f"Bearer {server.token}")
    raw.putheader("Content-Length", "1000")
    raw.putheader("Expect", "100-continue")
    raw.endheaders()
    raw.sock.settimeout(60)
    assert raw.sock.recv(65536).startswith(b"HTTP/1.1 100"), "the server has begun to read the file"
    raw.send(b"begun and never ended")
    server.process.send_signal(signal.SIGINT)
    _wait_until_refused(server)
    assert server.process.poll() is None
    server.process.send_signal(signal.SIGINT)
    server.process.wait(60)
    held.close()
    raw.close()


def _wait_until_refused(server: Server) -> None:
    """Return when the server accepts no connection any more."""
    end = time.monotonic() + 60
    with suppress(ConnectionRefusedError):
        while True:
            assert time.monotonic() < end, "the server still accepts connections"
            socket.create_connection((urlsplit(server.url).hostname, urlsplit(server.url).port)).close()
            time.sleep(0.05)


def test_an_idle_server_uses_little_memory(new_server: Callable[..., Server]) -> None:
    server = new_server()
    server.ask("GET", "/api/v1/training")
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    resident_kib = int(status.split("VmRSS:")[1].split()[0])
    assert resident_kib < 120 * 1024
