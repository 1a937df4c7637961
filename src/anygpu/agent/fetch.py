"""Downloads: by signed address, going on where they broke off, and verified before anyone uses them."""

from __future__ import annotations

import os
import time

from anygpu.agent.digest import sha256_of_file
from anygpu.agent.http11 import Address, Unreachable
from anygpu.agent.wire import Refused, parsed, persist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from anygpu.agent.http11 import Answer, Connection
    from anygpu.agent.wire import Server

MOST_REDIRECTS = 5
FETCH_FOR_S = 3600.0


class Corrupt(Exception):
    """What arrived is not what was promised."""


def download(
    server: Server, url: str, target: str, sha256: str | None, between_blocks: Callable[[], None]
) -> None:
    """`target` appears when it is whole and right. `between_blocks` may raise to give up."""
    part = target + ".part"
    os.makedirs(os.path.dirname(target), exist_ok=True)

    def patiently(wait_s: float) -> None:
        between_blocks()
        server.place.rest(wait_s)

    # Our own server is waited for as long as the lease lasts, which `between_blocks` knows.
    until = float("inf") if url.startswith("/") else time.monotonic() + FETCH_FOR_S
    persist(lambda: _once(server, url, part, between_blocks), until, patiently)
    found = sha256_of_file(part) if sha256 else None
    if found != sha256:
        os.unlink(part)
        raise Corrupt(f"{_shown(url)} has sha256 {found}, not {sha256}")
    os.replace(part, target)


def _once(server: Server, url: str, part: str, between_blocks: Callable[[], None]) -> None:
    have = os.path.getsize(part) if os.path.exists(part) else 0
    connection, answer = _opened(server, url, {"Range": f"bytes={have}-"} if have else {})
    try:
        if answer.status == 416:
            os.unlink(part)
            raise Unreachable("the part we had was of another file")
        with open(part, "ab" if answer.status == 206 else "wb") as file:
            for block in answer.blocks():
                between_blocks()
                file.write(block)
    finally:
        connection.close()


def _opened(server: Server, url: str, headers: dict[str, str]) -> tuple[Connection, Answer]:
    for _ in range(MOST_REDIRECTS):
        connection = server.connection(url)
        answer = connection.request("GET", "", headers, b"", 60.0)
        if answer.status in (200, 206, 416):
            return connection, answer
        location = answer.headers.get("location", "")
        problem = parsed(answer.body())
        connection.close()
        if not 300 <= answer.status < 400 or not location:
            raise Refused(answer.status, {"detail": f"GET {_shown(url)}", **problem})
        url = _joined(url, location)
    raise Refused(508, {"title": f"too many redirects from {_shown(url)}"})


def _joined(url: str, location: str) -> str:
    if "://" in location or url.startswith("/"):
        return location
    place = url.split("://", 1)[1].split("/", 1)[0]
    return f"{'https' if Address(url).tls else 'http'}://{place}{location}"


def _shown(url: str) -> str:
    """Without the query: it holds the signature."""
    return url.split("?", 1)[0]
