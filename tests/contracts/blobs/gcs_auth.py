"""Who may speak to the fake Google Cloud Storage: one service account, by bearer token or by signed URL (V4)."""

import base64
import hashlib
import json
import time
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

EMAIL = "tester@example.invalid"
HOST = (
    "storage.googleapis.com"  # what obstore signs for, whatever base URL it was given; nothing is sent there
)


class Refused(Exception):
    """The request proves nothing."""


class ServiceAccount:
    """A key pair: obstore gets the private half, the fake checks with the public one."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def to_json(self, base_url: str) -> str:
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        account = {"private_key": pem.decode(), "private_key_id": "1", "client_email": EMAIL}
        return json.dumps({**account, "gcs_base_url": base_url, "disable_oauth": False})

    def check(self, method: str, target: str, headers: dict[str, str]) -> None:
        if "x-goog-signature" in target.lower():
            self._check_url(method, target, headers)
        else:
            self._check_token(headers.get("authorization", ""))

    def _check_token(self, authorization: str) -> None:
        """A token the account signed for itself, good for an hour."""
        head, _, signature = authorization.removeprefix("Bearer ").rpartition(".")
        self._verify(_decoded(signature), head.encode())
        claims = json.loads(_decoded(head.partition(".")[2]))
        if claims["iss"] != EMAIL or claims["exp"] < time.time():
            raise Refused("not the account's token, or an old one")

    def _check_url(self, method: str, target: str, headers: dict[str, str]) -> None:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        signature = bytes.fromhex(query.pop("X-Goog-Signature"))
        text = _text_to_sign(method, parts.path, query, {**headers, "host": HOST})
        self._verify(signature, text.encode())
        made = datetime.strptime(query["X-Goog-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        if time.time() >= made + int(query["X-Goog-Expires"]):
            raise Refused("expired")

    def _verify(self, signature: bytes, text: bytes) -> None:
        try:
            self._key.public_key().verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature as error:
            raise Refused("bad signature") from error


def _text_to_sign(method: str, path: str, query: dict[str, str], headers: dict[str, str]) -> str:
    """As Google's documentation of V4 signing has it."""
    names = query["X-Goog-SignedHeaders"].split(";")
    canonical_query = "&".join(
        f"{quote(name, safe='~')}={quote(query[name], safe='~')}" for name in sorted(query)
    )
    canonical_headers = "".join(f"{name}:{headers[name].strip()}\n" for name in names)
    request = "\n".join(
        (method, path, canonical_query, canonical_headers, ";".join(names), "UNSIGNED-PAYLOAD")
    )
    scope = query["X-Goog-Credential"].partition("/")[2]
    digest = hashlib.sha256(request.encode()).hexdigest()
    return "\n".join(("GOOG4-RSA-SHA256", query["X-Goog-Date"], scope, digest))


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
