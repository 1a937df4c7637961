"""The order in which an agent tries the addresses of several servers."""

import hashlib
from collections.abc import Sequence


def order_for_attempt(urls: Sequence[str], job_id: str, attempt: int) -> list[str]:
    """Return the URLs in an order that is the same at every call and differs between attempts.

    An agent uses the first URL that works, so the agents are spread over the servers. If a server is added or removed,
    only the agents of that server change.
    """
    return sorted(dict.fromkeys(urls), key=lambda url: _rank(url, job_id, attempt))


def _rank(url: str, job_id: str, attempt: int) -> bytes:
    return hashlib.blake2b(f"{job_id} {attempt} {url}".encode(), digest_size=8).digest()
