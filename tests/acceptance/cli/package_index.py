"""A package index on loopback with one small package. It requires a password, and can serve TLS or act as a proxy."""

import base64
import datetime
import ipaddress
import ssl
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PACKAGE, USER, PASSWORD = "tinyindexed", "reader", "pass-word-4711"
WHEEL = f"{PACKAGE}-1.0-py3-none-any.whl"


def wheel() -> bytes:
    info = f"{PACKAGE}-1.0.dist-info"
    files = {
        f"{PACKAGE}.py": "VALUE = 42\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return data.getvalue()


class IndexHandler(BaseHTTPRequestHandler):
    """Answers requests for the index. A proxy request has a whole URL as its path."""

    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != expected:
            return self._answer(401, b"", {"WWW-Authenticate": 'Basic realm="index"'})
        if self.path.endswith(WHEEL):
            return self._answer(200, wheel(), {"Content-Type": "application/octet-stream"})
        if self.path.rstrip("/").endswith(f"/simple/{PACKAGE}"):
            link = f'<a href="../../files/{WHEEL}">{WHEEL}</a>'.encode()
            return self._answer(200, link, {"Content-Type": "text/html"})
        return self._answer(404, b"", {})

    do_HEAD = do_GET  # uv asks for the size first

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def running_index(certificate: Path | None = None) -> Iterator[tuple[int, list[str]]]:
    """Serve the index on a free port; yield the port and the paths of the requests."""
    seen: list[str] = []
    handler = type("Handler", (IndexHandler,), {"seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Certificates(NamedTuple):
    """PEM files: of an authority, and of a server at 127.0.0.1 (with its key) that the authority signed."""

    authority: Path
    server: Path


def write_certificates(directory: Path) -> Certificates:
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _certificate(
        "test authority", authority_key, "test authority", authority_key, is_authority=True
    )
    server = _certificate("test index", server_key, "test authority", authority_key, is_authority=False)
    made = Certificates(directory / "authority.pem", directory / "server.pem")
    made.authority.write_bytes(authority)
    private = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made.server.write_bytes(private + server)
    return made


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        builder = builder.add_extension(loopback, critical=False)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
