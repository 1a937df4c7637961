"""Sign URLs for the local blob store, and verify them."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from anygpu.errors import Forbidden
from anygpu.store.blobs.contract import Method

HINT = "Request a new URL from the server, for example by repeating the command."


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlGrant:
    """What a signed URL allows: one method on one blob, until `expires_at` (unix seconds)."""

    method: Method
    key: str
    expires_at: int
    max_size: int | None = None


def sign_url(
    base_url: str, method: Method, key: str, expires_at: float, secret: bytes, *, max_size: int | None = None
) -> str:
    """Return a signed URL: `{base}/blobs/{key}?method=PUT&expires=…&sig=…`. `expires_at` is in unix seconds.

    The signature does not cover the host. With an empty `base_url` the URL is relative, and the server that
    returns the URL adds its own address.
    """
    grant = UrlGrant(method=method, key=key, expires_at=int(expires_at), max_size=max_size)
    query = {"method": method, "expires": str(grant.expires_at)}
    if max_size is not None:
        query["max_size"] = str(max_size)
    query["sig"] = _signature(grant, secret)
    return f"{base_url.rstrip('/')}/blobs/{quote(key)}?{urlencode(query)}"


def verify_url(method: str, key: str, query: Mapping[str, str], *, now: float, secret: bytes) -> UrlGrant:
    """Verify the signature of a request for `/blobs/{key}` and return what its URL allows.

    Raises Forbidden if the URL is invalid or expired. A URL for GET also allows HEAD.
    """
    grant = _parse_grant("GET" if method == "HEAD" else method, key, query)
    if not hmac.compare_digest(
        _signature(grant, secret), query.get("sig", "").encode("ascii", "replace").decode()
    ):
        raise Forbidden(
            "The signature in this URL is not valid: another server made the URL, or somebody changed it.",
            hint=HINT,
        )
    if now >= grant.expires_at:
        raise Forbidden("This download or upload URL has expired.", hint=HINT)
    return grant


def _parse_grant(method: str, key: str, query: Mapping[str, str]) -> UrlGrant:
    if method not in ("GET", "PUT") or query.get("method") != method:
        raise Forbidden(f"This download or upload URL does not allow the method {method}.", hint=HINT)
    allowed: Method = "PUT" if method == "PUT" else "GET"
    expires_at = _parse_number(query.get("expires", ""))
    max_size = _parse_number(query["max_size"]) if "max_size" in query else None
    return UrlGrant(method=allowed, key=key, expires_at=expires_at, max_size=max_size)


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Forbidden(
            "This download or upload URL is not complete, or its parameters are damaged.", hint=HINT
        )
    return int(text)


def _signature(grant: UrlGrant, secret: bytes) -> str:
    size = "" if grant.max_size is None else str(grant.max_size)
    # Keys contain no newline, so two different grants never have the same text.
    text = "\n".join(("anygpu-blob-1", grant.method, str(grant.expires_at), size, grant.key))
    return hmac.new(secret, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
