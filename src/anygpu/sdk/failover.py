"""Several servers that share a database: use another one if the current one fails."""

import threading
from collections.abc import Sequence

from anygpu.sdk.http import Endpoint


def split_urls(text: str) -> list[str]:
    """Return the URLs of a list that is separated by commas, each once and without a slash at the end."""
    return list(dict.fromkeys(part.strip().rstrip("/") for part in text.split(",") if part.strip()))


class FailoverLocator:
    """Returns the URL of the server to use, and the next one after a failure. All servers accept the same token.

    Connections of several threads may share it: if they fail at the same server, only one server is skipped.
    """

    def __init__(self, urls: Sequence[str], token: str) -> None:
        self._endpoints = [Endpoint(url, token) for url in urls]
        self._position = 0
        self._lock = threading.Lock()

    @property
    def has_others(self) -> bool:
        return len(self._endpoints) > 1

    def __call__(self) -> Endpoint:
        return self._endpoints[self._position]

    def skip(self, failed: Endpoint) -> None:
        """Use the next server from now on, if `failed` is the current one."""
        with self._lock:
            if self._endpoints[self._position] == failed:
                self._position = (self._position + 1) % len(self._endpoints)
