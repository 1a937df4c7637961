"""A TCP proxy that drops some responses after the server has processed the request."""

import contextlib
import random
import re
import socket
import threading
from types import TracebackType

BEARER = re.compile(rb"[Aa]uthorization: Bearer ([0-9a-f-]{36})\.(\d+)\.")
ACKED = re.compile(rb'"acked": ?(\d+)')


class DroppingProxy:
    """A proxy between agents and a server that drops responses at random, each with the probability `drop`.

    `acked` contains the highest frame number whose acknowledgement reached the agent, by (job, attempt).
    """

    def __init__(self, target_port: int, *, seed: int, drop: float) -> None:
        self._target = target_port
        self._rng = random.Random(seed)
        self._drop = drop
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._closed = False
        self._lock = threading.Lock()
        self.dropped = 0
        self.acked: dict[tuple[str, int], int] = {}

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> "DroppingProxy":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            server.settimeout(None)
        except OSError:
            client.close()
            return
        who: list[tuple[str, int]] = []
        threading.Thread(target=self._upstream, args=(client, server, who), daemon=True).start()
        self._downstream(client, server, who)

    def _upstream(self, client: socket.socket, server: socket.socket, who: list[tuple[str, int]]) -> None:
        try:
            while data := client.recv(65536):
                match = BEARER.search(data)
                if match and not who:
                    who.append((match[1].decode(), int(match[2])))
                server.sendall(data)
        except OSError:
            pass
        _close(server, client)

    def _downstream(self, client: socket.socket, server: socket.socket, who: list[tuple[str, int]]) -> None:
        try:
            while data := server.recv(65536):
                if self._rng.random() < self._drop:
                    with self._lock:
                        self.dropped += 1
                    break
                client.sendall(data)
                self._record_acks(data, who)
        except OSError:
            pass
        _close(client, server)

    def _record_acks(self, data: bytes, who: list[tuple[str, int]]) -> None:
        for match in ACKED.finditer(data) if who else ():
            with self._lock:
                self.acked[who[0]] = max(self.acked.get(who[0], 0), int(match[1]))


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
