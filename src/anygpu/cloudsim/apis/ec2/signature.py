"""Verify requests that are signed with AWS signature version 4.

As in AWS, a request is rejected if its key id is unknown or if it was signed with a wrong secret. The steps
are those of "Create a signed AWS API request" in the IAM user guide.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request,\s*"
    r"SignedHeaders=(?P<names>[^,]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureHeader:
    """The parts of an Authorization header."""

    key_id: str
    day: str
    region: str
    service: str
    names: tuple[str, ...]
    signature: str


def parse_header(header: str) -> SignatureHeader | None:
    """Parse an Authorization header. Return None if it does not have the format of an AWS signature."""
    match = HEADER.fullmatch(header)
    if match is None:
        return None
    return SignatureHeader(
        key_id=match["key"],
        day=match["day"],
        region=match["region"],
        service=match["service"],
        names=tuple(match["names"].split(";")),
        signature=match["signature"],
    )


def is_valid(
    signed: SignatureHeader,
    secret: str,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
) -> bool:
    """Return whether the request was signed with `secret`."""
    canonical = "\n".join(
        (
            method,
            path or "/",
            _query(query),
            *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in signed.names),
            "",
            ";".join(signed.names),
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{signed.day}/{signed.region}/{signed.service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{headers.get('x-amz-date', '')}\n{scope}\n{digest}"
    return hmac.compare_digest(_hmac(_key(signed, secret), text).hex(), signed.signature)


def _query(query: str) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parse_qsl(query, True)
    )
    return "&".join(f"{name}={value}" for name, value in pairs)


def _key(signed: SignatureHeader, secret: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (signed.day, signed.region, signed.service, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
