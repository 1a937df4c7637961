"""The rendezvous: a file that says where the tunnel to the server begins.

The tunnel is made from the server's side and gets a new port each time, so the address is read anew for every
connection. A connection through an old tunnel may stay silent for minutes before anyone says that it is dead; when the
file names another address it is cut at once, and whoever waits to try again waits no longer.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time

from anygpu.agent.http11 import Unreachable
from anygpu.agent.wire import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    Stamp = Optional[tuple[int, int]]

LOOK_EVERY_S = 0.05  # while somebody waits: what was spooled is seen as soon as there is a tunnel again
CUT_EVERY_S = 0.25


class Rendezvous(Place):
    """Reads `{"url": ...}` from a file that is replaced whole, and may not be there yet."""

    moves = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._here = threading.local()  # what each thread saw when it last asked for the address
        self._sockets: list[tuple[str, socket.socket]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._cut_old_ones, name="rendezvous", daemon=True).start()

    def url(self) -> str:
        self._here.stamp = self._stamp()
        self._here.url = url = self._read()
        return url

    def opened(self, made: socket.socket) -> None:
        with self._lock:
            self._sockets = [(url, one) for url, one in self._sockets if one.fileno() >= 0]
            self._sockets.append((self._here.url, made))

    def rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        seen = getattr(self._here, "stamp", None)
        while self._stamp() == seen and time.monotonic() < until:
            time.sleep(min(LOOK_EVERY_S, seconds))

    def _stamp(self) -> Stamp:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _read(self) -> str:
        try:
            with open(self._path, encoding="utf-8") as file:
                return str(json.load(file)["url"]).rstrip("/")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unreachable(f"{self._path} does not say where the tunnel is: {error}") from error

    def _cut_old_ones(self) -> None:
        seen, now = self._stamp(), ""
        while True:
            time.sleep(CUT_EVERY_S)
            stamp = self._stamp()
            if stamp != seen and stamp is not None:
                seen, now = stamp, self._read_or("")
            if now:
                self._cut_all_but(now)

    def _read_or(self, otherwise: str) -> str:
        try:
            return self._read()
        except Unreachable:
            return otherwise

    def _cut_all_but(self, now: str) -> None:
        with self._lock:
            for url, one in self._sockets:
                if url != now and one.fileno() >= 0:
                    _cut(one)


def _cut(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed meanwhile
