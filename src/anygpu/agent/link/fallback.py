"""Use a relay if the direct connection to the server is lost while the job runs."""

from __future__ import annotations

import threading
import time

from anygpu.agent.link.client import ServerAddress, is_anygpu_server, shut_down
from anygpu.agent.link.http11 import HttpConnection
from anygpu.agent.link.server_list import ServerList

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from anygpu.agent.link.http11 import Body, Connection, StreamedResponse
    from anygpu.agent.link.relay import RelayAddress

# How long no server has answered. A machine with a relay has a lease of 180 s, and a failed request takes up to 30 s.
FALLBACK_AFTER_S = 30.0


class RelayFallback(ServerList):
    """The addresses of the servers, and a relay for the case that they cannot be reached any more.

    A server that does not answer may not be running. So the agent uses the relay only after a server has answered
    there, and if none answers at its addresses. It does not change back. `on_change` is called when it changes.
    """

    def __init__(
        self,
        path: str,
        ticket_urls: list[str],
        relay: RelayAddress,
        on_change: Callable[[], None],
        *,
        is_remote: bool,
        after_s: float = FALLBACK_AFTER_S,
    ) -> None:
        super().__init__(path, ticket_urls, is_remote=is_remote)
        self._relay = relay
        self._on_change = on_change
        self._after_s = after_s
        self._failed_since: float | None = None
        self._opened_at = 0.0  # when the newest connection to a server was opened
        self._is_checking = False
        self.uses_relay = False

    @property
    def has_others(self) -> bool:
        return super().has_others and not self.uses_relay

    def connect(self) -> Connection:
        return _FallbackConnection(self, super().connect(), self._relay.connect())

    def connect_to(self, url: str) -> Connection:
        path = self.path_on_server(url)
        if path is None:
            return HttpConnection(lambda: url)
        return _FallbackConnection(self, super().connect_to(url), self._relay.connect_to(path))

    def on_open(self, connection: socket.socket, url: str) -> None:
        self._opened_at = time.monotonic()
        super().on_open(connection, url)

    def on_success(self, url: str) -> None:
        """Forget earlier failures, if a connection was opened since: an old one may work although no new one does."""
        if self._failed_since is not None and self._opened_at >= self._failed_since:
            self._failed_since = None
        super().on_success(url)

    def on_failure(self, url: str) -> None:
        super().on_failure(url)
        with self._lock:
            now = time.monotonic()
            self._failed_since = now if self._failed_since is None else self._failed_since
            if self.uses_relay or self._is_checking or now - self._failed_since < self._after_s:
                return
            self._is_checking = True
        threading.Thread(target=self._check_relay, name="relay-check", daemon=True).start()

    def is_rejected_by_all(self, url: str) -> bool:
        return self.uses_relay or super().is_rejected_by_all(url)

    def _check_relay(self) -> None:
        """Use the relay from now on if the server answers there, and not at its addresses."""
        try:
            if is_anygpu_server(self._relay):
                if any(map(self._is_server, self._urls)):
                    self._failed_since = None
                else:
                    self._change()
        finally:
            self._is_checking = False

    @staticmethod
    def _is_server(url: str) -> bool:
        return is_anygpu_server(ServerAddress(url))

    def _change(self) -> None:
        self.uses_relay = True
        self._on_change()
        with self._lock:
            for _, one in self._sockets:
                if one.fileno() >= 0:
                    shut_down(one)


class _FallbackConnection:
    """A connection to the server, directly or through the relay. Each request uses the one that is active then."""

    def __init__(self, address: RelayFallback, direct: Connection, relayed: Connection) -> None:
        self._address = address
        self._direct = direct
        self._relayed = relayed
        self._used = direct

    @property
    def url(self) -> str:
        return self._used.url

    def request(
        self, method: str, path: str, headers: dict[str, str], body: Body, timeout_s: float
    ) -> StreamedResponse:
        self._used = self._relayed if self._address.uses_relay else self._direct
        return self._used.request(method, path, headers, body, timeout_s)

    def fail(self) -> None:
        self._used.fail()

    def close(self) -> None:
        self._direct.close()
        self._relayed.close()
