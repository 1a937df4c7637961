"""Download files by signed URL, resume broken downloads, and verify them."""

from __future__ import annotations

import contextlib
import os
import time

from anygpu.agent.files import file_sha256
from anygpu.agent.link.client import RequestRefused, parse_body, retry_until
from anygpu.agent.link.http11 import HttpUrl, Unreachable
from anygpu.agent.run.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from anygpu.agent.link.client import ServerClient
    from anygpu.agent.link.http11 import Connection, StreamedResponse
    from anygpu.agent.prepare.cache import FileCache

MAX_REDIRECTS = 5
DOWNLOAD_TIMEOUT_S = 3600.0
EXPIRED_STATUSES = (401, 403, 410)


class CorruptDownload(Exception):
    """A downloaded file does not have the expected SHA-256."""


class InputDownloader:
    """Downloads the files of an attempt, into the machine's cache if there is one."""

    def __init__(
        self,
        connect: Callable[[], ServerClient],
        fresh_url: Callable[[str], str | None],
        check_interrupted: Callable[[], None],
        use_cache: bool,
    ) -> None:
        """Create the downloader.

        `fresh_url` takes the SHA-256 of a file and returns a new signed URL for it. `check_interrupted`
        raises if the attempt must stop.
        """
        self._connect = connect
        self._fresh_url = fresh_url
        self._check_interrupted = check_interrupted
        self._use_cache = use_cache

    @property
    def has_cache(self) -> bool:
        return self._cache() is not None

    def fetch(self, url: str, target: str, sha256: str | None, what: str) -> None:
        """Download a file to `target`. `what` names the file in error messages."""
        try:
            self._download(url, target, sha256)
        except CorruptDownload as error:
            raise CannotStart(
                f"{what} is damaged: {error}. Correct the sha256 in the spec, or provide the right file"
            ) from error
        except (RequestRefused, Unreachable, ValueError) as error:
            raise CannotStart(
                f"{what} could not be downloaded: {error}. Check its address, and the network of this machine"
            ) from error

    @contextlib.contextmanager
    def open_cached(self, file: dict[str, Any], fallback: str, what: str) -> Iterator[str]:
        """Context manager that downloads a file and returns its path.

        On a machine with a cache, this is the path in the cache. Otherwise the file is downloaded to
        `fallback` and removed at the end of the `with` block. `what` names the file in error messages.
        """

        def fetch_to(target: str) -> None:
            self.fetch(file["url"], target, file["sha256"], what)

        cache = self._cache()
        if cache is not None:
            with cache.acquire(file["sha256"], fetch_to, self._check_interrupted) as path:
                yield path
            return
        fetch_to(fallback)
        yield fallback
        os.unlink(fallback)

    def _cache(self) -> FileCache | None:
        """Return the cache of downloaded files on this machine; None if there is none.

        The server's own machine has no such cache, because the server stores every file there.
        """
        if not self._use_cache:
            return None

        from anygpu.agent.prepare.cache import machine_cache

        return machine_cache()

    def _download(self, url: str, target: str, sha256: str | None) -> None:
        """Download a file to `target`.

        If `url` has expired, as it may during a long download, get a new URL and try once more.
        """
        try:
            download(self._connect(), url, target, sha256, self._check_interrupted)
        except RequestRefused as refusal:
            fresh = self._fresh_url(sha256) if sha256 and refusal.status in EXPIRED_STATUSES else None
            if fresh is None or fresh == url:
                raise
            download(self._connect(), fresh, target, sha256, self._check_interrupted)


def download(
    server: ServerClient, url: str, target: str, sha256: str | None, between_blocks: Callable[[], None]
) -> None:
    """Download a file and verify its SHA-256. `target` is created only when the file is complete.

    `between_blocks` is called between blocks of data; it may raise to stop the download.
    """
    part = target + ".part"
    os.makedirs(os.path.dirname(target), exist_ok=True)

    def wait(wait_s: float) -> None:
        between_blocks()
        server.address.wait(wait_s)

    # Retry our own server until the lease ends: then `between_blocks` raises.
    deadline = float("inf") if url.startswith("/") else time.monotonic() + DOWNLOAD_TIMEOUT_S
    retry_until(lambda: _download_once(server, url, part, between_blocks), deadline, wait)
    actual = file_sha256(part) if sha256 else None
    if actual != sha256:
        os.unlink(part)
        raise CorruptDownload(
            f"the file from {_without_query(url)} has the sha256 {actual}, not the expected {sha256}"
        )
    os.replace(part, target)


def _download_once(server: ServerClient, url: str, part: str, between_blocks: Callable[[], None]) -> None:
    have = os.path.getsize(part) if os.path.exists(part) else 0
    connection, response = _open_following_redirects(server, url, {"Range": f"bytes={have}-"} if have else {})
    try:
        if response.status == 416:
            os.unlink(part)
            raise Unreachable(
                "the rest of a partly downloaded file is not available; the download starts again from the "
                "beginning"
            )
        with open(part, "ab" if response.status == 206 else "wb") as file:
            for block in response.blocks():
                between_blocks()
                file.write(block)
    finally:
        connection.close()


def _open_following_redirects(
    server: ServerClient, url: str, headers: dict[str, str]
) -> tuple[Connection, StreamedResponse]:
    for _ in range(MAX_REDIRECTS):
        connection = server.open_connection(url)
        response = connection.request("GET", "", headers, b"", 60.0)
        if response.status in (200, 206, 416):
            return connection, response
        location = response.headers.get("location", "")
        problem = parse_body(response.body())
        connection.close()
        if not 300 <= response.status < 400 or not location:
            raise RequestRefused(response.status, {"detail": f"GET {_without_query(url)}", **problem})
        url = _resolve_location(url, location)
    raise RequestRefused(
        508,
        {"title": f"too many redirects. Give the final address of the file instead of {_without_query(url)}"},
    )


def _resolve_location(url: str, location: str) -> str:
    if "://" in location or url.startswith("/"):
        return location
    netloc = url.split("://", 1)[1].split("/", 1)[0]
    return f"{'https' if HttpUrl(url).tls else 'http'}://{netloc}{location}"


def _without_query(url: str) -> str:
    """Return the URL without its query, which contains the signature."""
    return url.split("?", 1)[0]
