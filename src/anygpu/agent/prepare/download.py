"""Download files by signed URL, resume broken downloads, verify them, and cache them on this machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time

from anygpu.agent.files import file_sha256
from anygpu.agent.link.client import RequestRefused, parse_body, retry_until
from anygpu.agent.link.http11 import HttpUrl, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anygpu.agent.link.client import ServerClient
    from anygpu.agent.link.http11 import HttpConnection, StreamedResponse

    Download = Callable[[str], None]  # makes the named file, whole and verified

MAX_REDIRECTS = 5
DOWNLOAD_TIMEOUT_S = 3600.0


class CorruptDownload(Exception):
    """What arrived is not what was promised."""


def download(
    server: ServerClient, url: str, target: str, sha256: str | None, between_blocks: Callable[[], None]
) -> None:
    """`target` appears when it is whole and right. `between_blocks` may raise to give up."""
    part = target + ".part"
    os.makedirs(os.path.dirname(target), exist_ok=True)

    def patiently(wait_s: float) -> None:
        between_blocks()
        server.address.wait(wait_s)

    # Our own server is waited for as long as the lease lasts, which `between_blocks` knows.
    until = float("inf") if url.startswith("/") else time.monotonic() + DOWNLOAD_TIMEOUT_S
    retry_until(lambda: _download_once(server, url, part, between_blocks), until, patiently)
    found = file_sha256(part) if sha256 else None
    if found != sha256:
        os.unlink(part)
        raise CorruptDownload(f"{_without_query(url)} has sha256 {found}, not {sha256}")
    os.replace(part, target)


def _download_once(server: ServerClient, url: str, part: str, between_blocks: Callable[[], None]) -> None:
    have = os.path.getsize(part) if os.path.exists(part) else 0
    connection, response = _open_following_redirects(server, url, {"Range": f"bytes={have}-"} if have else {})
    try:
        if response.status == 416:
            os.unlink(part)
            raise Unreachable("the part we had was of another file")
        with open(part, "ab" if response.status == 206 else "wb") as file:
            for block in response.blocks():
                between_blocks()
                file.write(block)
    finally:
        connection.close()


def _open_following_redirects(
    server: ServerClient, url: str, headers: dict[str, str]
) -> tuple[HttpConnection, StreamedResponse]:
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
    raise RequestRefused(508, {"title": f"too many redirects from {_without_query(url)}"})


def _resolve_location(url: str, location: str) -> str:
    if "://" in location or url.startswith("/"):
        return location
    place = url.split("://", 1)[1].split("/", 1)[0]
    return f"{'https' if HttpUrl(url).tls else 'http'}://{place}{location}"


def _without_query(url: str) -> str:
    """Without the query: it holds the signature."""
    return url.split("?", 1)[0]


MAX_CACHE_BYTES = 50 * 2**30
DISK_DIVISOR = 5  # at most one part in so many
LOCK_POLL_S = 0.2
PART_RETENTION_S = 7 * 86400.0
VERIFIED_MTIME_S = 1_000_000_000  # the time a verified file bears; whoever writes to it changes that


class FileCache:
    def __init__(self, root: str, most_bytes: int | None = None) -> None:
        os.makedirs(os.path.join(root, "locks"), exist_ok=True)
        os.chmod(root, 0o700)  # others have accounts here too, and data may be confidential
        disk = os.statvfs(root)
        self._root = root
        self._max_bytes = most_bytes or min(MAX_CACHE_BYTES, disk.f_blocks * disk.f_frsize // DISK_DIVISOR)

    @contextlib.contextmanager
    def acquire(
        self, sha256: str, download_to: Download, check_interrupted: Callable[[], None]
    ) -> Iterator[str]:
        """The file, which stays at least as long as it is held. `go_on` is asked while another attempt fetches it."""
        path = os.path.join(self._root, sha256)
        with self._lock(sha256, check_interrupted):
            if not _is_verified(path, sha256):
                self._fetch(path, download_to)
            os.utime(path, (time.time(), VERIFIED_MTIME_S))
            yield path
        self.evict(0, keep=sha256)

    def _fetch(self, path: str, download_to: Download) -> None:
        """A disk that the cache itself has filled is no reason to fail."""
        try:
            download_to(path)
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.evict(self._max_bytes, keep=os.path.basename(path)):
                raise
            download_to(path)
        os.chmod(path, 0o444)

    def evict(self, wanted_bytes: int, keep: str) -> int:
        """Remove the longest unused until so much more fits within the bound; answers with what that freed."""
        entries = sorted(self._entries(), key=lambda entry: entry[1])
        over = sum(size for _, _, size in entries) + wanted_bytes - self._max_bytes
        freed = 0
        for name, _, size in entries:
            if freed >= over:
                break
            if not name.startswith(keep) and self._remove(name):
                freed += size
        return freed

    def _entries(self) -> Iterator[tuple[str, float, int]]:
        """(name, last used, bytes), partial downloads among them."""
        for entry in os.scandir(self._root):
            if entry.is_file(follow_symlinks=False):
                about = entry.stat(follow_symlinks=False)
                used_at = about.st_mtime if entry.name.endswith(".part") else about.st_atime
                yield entry.name, used_at, about.st_size

    def _remove(self, name: str) -> bool:
        """Not while somebody holds it, and no download that may still go on."""
        path = os.path.join(self._root, name)
        with self._lock_file(name) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if name.endswith(".part") and time.time() - os.stat(path).st_mtime < PART_RETENTION_S:
                    return False
                os.unlink(path)
            except OSError:
                return False
        return True

    @contextlib.contextmanager
    def _lock(self, sha256: str, check_interrupted: Callable[[], None]) -> Iterator[None]:
        with self._lock_file(sha256) as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    check_interrupted()
                    time.sleep(LOCK_POLL_S)
            yield

    @contextlib.contextmanager
    def _lock_file(self, name: str) -> Iterator[int]:
        """Few files for all names, and never removed: a lock on a file that is gone protects nobody."""
        path = os.path.join(self._root, "locks", name[:3])
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _is_verified(path: str, sha256: str) -> bool:
    try:
        if os.stat(path).st_mtime == VERIFIED_MTIME_S or file_sha256(path) == sha256:
            return True
    except FileNotFoundError:
        return False
    os.unlink(path)
    return False


def machine_cache() -> FileCache | None:
    """In the home directory of whoever runs us; None where nothing can be kept there."""
    try:
        return FileCache(os.path.join(os.path.expanduser("~"), ".anygpu", "cache"))
    except OSError:
        return None
