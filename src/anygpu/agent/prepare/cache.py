"""A cache of downloaded files, shared by all attempts on a machine.

Files are named by the SHA-256 of their content. The size of the cache is limited: the least recently used
files are removed first. A lock makes sure that two attempts that need the same file download it only once. A
partial download stays in the cache, and any attempt can resume it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time

from anygpu.agent.files import file_sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Download = Callable[[str], None]  # creates the given file, complete and verified

MAX_CACHE_BYTES = 50 * 2**30
DISK_DIVISOR = 5  # use at most a fifth of the disk
LOCK_POLL_S = 0.2
PART_RETENTION_S = 7 * 86400.0
VERIFIED_MTIME_S = 1_000_000_000  # the mtime given to verified files; writing to a file changes it


class FileCache:
    """A directory of files, each named by its SHA-256."""

    def __init__(self, root: str, max_bytes: int | None = None) -> None:
        os.makedirs(os.path.join(root, "locks"), exist_ok=True)
        os.chmod(root, 0o700)  # other users of the machine must not read it
        disk = os.statvfs(root)
        self._root = root
        self._max_bytes = max_bytes or min(MAX_CACHE_BYTES, disk.f_blocks * disk.f_frsize // DISK_DIVISOR)

    @contextlib.contextmanager
    def acquire(
        self, sha256: str, download_to: Download, check_interrupted: Callable[[], None]
    ) -> Iterator[str]:
        """Context manager that returns the path of a cached file, and downloads the file if it is missing.

        The file is not removed from the cache while the `with` block runs. `check_interrupted` is called
        while another attempt downloads the file; it may raise to stop waiting.
        """
        path = os.path.join(self._root, sha256)
        with self._lock(sha256, check_interrupted):
            if not _is_verified(path, sha256):
                self._download(path, download_to)
            os.utime(path, (time.time(), VERIFIED_MTIME_S))
            yield path
        self.evict(0, keep=sha256)

    def _download(self, path: str, download_to: Download) -> None:
        """Download a file to `path`. If the disk is full, remove other files from the cache and try again."""
        try:
            download_to(path)
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.evict(self._max_bytes, keep=os.path.basename(path)):
                raise
            download_to(path)
        os.chmod(path, 0o444)

    def evict(self, wanted_bytes: int, keep: str) -> int:
        """Remove the least recently used files, except `keep`, until `wanted_bytes` more fit into the cache.

        Return the number of bytes that were freed.
        """
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
        """Yield (name, time of last use, size in bytes) of every file, including partial downloads."""
        for entry in os.scandir(self._root):
            if entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                used_at = status.st_mtime if entry.name.endswith(".part") else status.st_atime
                yield entry.name, used_at, status.st_size

    def _remove(self, name: str) -> bool:
        """Remove a file from the cache and return True.

        Return False if the file is in use or is a recent partial download, which stays.
        """
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
        """Open the lock file for `name`. Several names share a lock file, and lock files are never removed."""
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
    """Return the cache in ANYGPU_CACHE_DIR, else in the user's home directory; None if it cannot be created."""
    directory = os.environ.get("ANYGPU_CACHE_DIR") or os.path.join(
        os.path.expanduser("~"), ".anygpu", "cache"
    )
    try:
        return FileCache(directory)
    except OSError:
        return None
