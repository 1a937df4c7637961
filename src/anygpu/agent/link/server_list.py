"""The addresses of several servers that share a database, and the one that the agent uses now."""

from __future__ import annotations

import json
import threading

from anygpu.agent.files import write_json
from anygpu.agent.link.client import ServerAddress, shut_down

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

MAX_URLS = 32
MAX_URL_LENGTH = 2000


class ServerList(ServerAddress):
    """The addresses of all servers. If one fails, the agent uses the next.

    The agent stays with an address as long as it works. The servers send the current list with their answers; it is
    kept in a file, so that an agent that is started again has it. The addresses of the ticket are always tried too,
    after those of the list.
    """

    def __init__(self, path: str, ticket_urls: list[str], *, is_remote: bool = False) -> None:
        self.is_remote = is_remote
        self._path = path
        self._ticket_urls = _valid_urls(ticket_urls)
        self._listed = _read(path)
        self._urls = _unique([*self._listed, *self._ticket_urls]) or ticket_urls
        self._current = self._urls[0]
        self._rejected: set[str] = set()
        self._sockets: list[tuple[str, socket.socket]] = []
        self._lock = threading.Lock()

    @property
    def has_others(self) -> bool:
        return len(self._urls) > 1

    def url(self) -> str:
        return self._current

    def on_open(self, connection: socket.socket, url: str) -> None:
        with self._lock:
            self._sockets = [(each, one) for each, one in self._sockets if one.fileno() >= 0]
            self._sockets.append((url, connection))

    def on_failure(self, url: str) -> None:
        """Use the next address from now on, if `url` is the one in use.

        Connections to the failed address are closed, because they can hang for minutes.
        """
        with self._lock:
            if url != self._current or len(self._urls) < 2:
                return
            position = self._urls.index(url) if url in self._urls else -1
            self._current = self._urls[(position + 1) % len(self._urls)]
            for each, one in self._sockets:
                if each == url and one.fileno() >= 0:
                    shut_down(one)

    def on_success(self, url: str) -> None:
        self._rejected.discard(url)

    def is_rejected_by_all(self, url: str) -> bool:
        """Record that the server at `url` does not know this agent. Return whether all servers say so.

        One server alone proves nothing: another program may have taken over the address of a dead server, or one
        server may have a wrong key.
        """
        self._rejected.add(url)
        return self._rejected.issuperset(self._urls)

    def update(self, urls: Any) -> None:
        """Replace the list by the one of an answer. An answer without a list, of an older server, changes nothing."""
        listed = _valid_urls(urls)
        if not listed or listed == self._listed:
            return
        with self._lock:
            self._listed = listed
            self._urls = _unique([*listed, *self._ticket_urls])
        try:
            write_json(self._path, {"urls": listed})
        except OSError:
            return  # the disk is full: this agent has the list in memory

    def path_on_server(self, url: str) -> str | None:
        """Return the path of a URL of one of the servers, which every other server has too. None for other URLs."""
        for base in self._urls:
            if url.startswith(base + "/"):
                return url[len(base) :]
        return super().path_on_server(url)


def _read(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return _valid_urls(json.load(file)["urls"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _valid_urls(urls: Any) -> list[str]:
    """Return the URLs of a list that came from a file or an answer, without what is not a URL."""
    if not isinstance(urls, list):
        return []
    return _unique([url.rstrip("/") for url in urls if _is_url(url)])[:MAX_URLS]


def _is_url(url: Any) -> bool:
    return isinstance(url, str) and len(url) < MAX_URL_LENGTH and url.startswith(("http://", "https://"))


def _unique(urls: list[str]) -> list[str]:
    return list(dict.fromkeys(urls))
