"""What a blob may be called: only names that every store keeps exactly as they are."""

import re
import unicodedata
from functools import lru_cache

from anygpu.errors import UnsafePath

MAX_KEY_BYTES = 900  # S3 allows 1,024, and a prefix may come before it
MAX_SEGMENT_BYTES = 240  # file systems allow 255
STAGING = ".staging"  # where the local store writes what is not finished

_HIDDEN_BY_LOCAL_STORE = re.compile(r"#\d+$")  # obstore's own mark for unfinished files

_PLAIN = re.compile(r"[A-Za-z0-9_.~/-]+")


def checked_key(key: str) -> str:
    """The key itself, or UnsafePath."""
    reason = _fault(key)
    if reason:
        raise UnsafePath(f"{key!r} cannot name a blob: {reason}.", key=key)
    return key


def signable_key(key: str) -> str:
    """The key itself if it needs no escaping in a URL: escaped, not every provider's signature is right."""
    if not _PLAIN.fullmatch(checked_key(key)):
        raise UnsafePath(f"{key!r} cannot be signed: use letters, digits and `_`, `-`, `.`, `~`.", key=key)
    return key


def checked_prefix(prefix: str) -> str:
    """A folder to list, with or without its closing slash; empty means everything."""
    folder = prefix.removesuffix("/")
    return checked_key(folder) if folder else ""


@lru_cache(maxsize=4096)
def _fault(key: str) -> str:
    if not key or len(key.encode(errors="surrogatepass")) > MAX_KEY_BYTES:
        return f"it must have 1 to {MAX_KEY_BYTES} bytes"
    if not key.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in key):
        return "it has control characters"
    if "\\" in key:
        return "it has a backslash"
    if key.split("/", 1)[0] == STAGING:
        return f"{STAGING} is kept for unfinished files"
    return next((fault for segment in key.split("/") if (fault := _segment_fault(segment))), "")


def _segment_fault(segment: str) -> str:
    if not segment:
        return "it has an empty part"
    if segment.endswith("."):  # covers `.` and `..`; Azure drops a closing dot
        return "a part ends with a dot"
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        return f"a part is longer than {MAX_SEGMENT_BYTES} bytes"
    if _HIDDEN_BY_LOCAL_STORE.search(segment):
        return "a part ends with # and a number"
    return ""
