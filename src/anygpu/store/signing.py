"""URLs the server signs itself: whoever holds one may do just what it says, until it expires."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from anygpu.errors import Forbidden
from anygpu.store.blobs import Method

ASK_AGAIN = "Ask the server for a new link."


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a valid link allows."""

    method: Method
    key: str
    expires_at: int
    max_size: int | None = None


def sign_url(
    base_url: str, method: Method, key: str, expires_at: float, secret: bytes, *, max_size: int | None = None
) -> str:
    """`{base}/blobs/{key}?method=PUT&expires=…&sig=…`; `expires_at` in unix seconds.

    The host is not part of what is signed: with an empty base the link is relative, and the server that hands
    it out puts its own address before it.
    """
    grant = Grant(method=method, key=key, expires_at=int(expires_at), max_size=max_size)
    query = {"method": method, "expires": str(grant.expires_at)}
    if max_size is not None:
        query["max_size"] = str(max_size)
    query["sig"] = _signature(grant, secret)
    return f"{base_url.rstrip('/')}/blobs/{quote(key)}?{urlencode(query)}"


def verify(method: str, key: str, query: Mapping[str, str], *, now: float, secret: bytes) -> Grant:
    """The grant behind a request for `/blobs/{key}`, or Forbidden. A link to GET is good for HEAD too."""
    grant = _claimed("GET" if method == "HEAD" else method, key, query)
    if not hmac.compare_digest(
        _signature(grant, secret), query.get("sig", "").encode("ascii", "replace").decode()
    ):
        raise Forbidden("This link was not made by this server, or it was changed.", hint=ASK_AGAIN)
    if now >= grant.expires_at:
        raise Forbidden("This link has expired.", hint=ASK_AGAIN)
    return grant


def _claimed(method: str, key: str, query: Mapping[str, str]) -> Grant:
    if method not in ("GET", "PUT") or query.get("method") != method:
        raise Forbidden(f"This link does not allow {method}.", hint=ASK_AGAIN)
    allowed: Method = "PUT" if method == "PUT" else "GET"
    expires_at = _number(query.get("expires", ""))
    max_size = _number(query["max_size"]) if "max_size" in query else None
    return Grant(method=allowed, key=key, expires_at=expires_at, max_size=max_size)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Forbidden("This link is damaged.", hint=ASK_AGAIN)
    return int(text)


def _signature(grant: Grant, secret: bytes) -> str:
    size = "" if grant.max_size is None else str(grant.max_size)
    # Keys have no newline, so no two grants have the same text.
    text = "\n".join(("anygpu-blob-1", grant.method, str(grant.expires_at), size, grant.key))
    return hmac.new(secret, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
