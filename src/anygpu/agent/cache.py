"""What was fetched to this machine once is not fetched again: files by the hash of their content, for all attempts.

Bounded, the longest unused goes first; locked, so that two attempts that need the same file fetch it once. A partial
download stays, and goes on where it broke off, also in another attempt.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time

from anygpu.agent.digest import sha256_of_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Bring = Callable[[str], None]  # makes the named file, whole and verified

MOST_BYTES = 50 * 2**30
SHARE_OF_DISK = 5  # at most one part in so many
LOOK_EVERY_S = 0.2
PART_LIFE_S = 7 * 86400.0
SEALED_S = 1_000_000_000  # the time a verified file bears; whoever writes to it changes that


class Cache:
    def __init__(self, root: str, most_bytes: int | None = None) -> None:
        os.makedirs(os.path.join(root, "locks"), exist_ok=True)
        os.chmod(root, 0o700)  # others have accounts here too, and data may be confidential
        disk = os.statvfs(root)
        self._root = root
        self._most_bytes = most_bytes or min(MOST_BYTES, disk.f_blocks * disk.f_frsize // SHARE_OF_DISK)

    @contextlib.contextmanager
    def holding(self, sha256: str, bring: Bring, go_on: Callable[[], None]) -> Iterator[str]:
        """The file, which stays at least as long as it is held. `go_on` is asked while another attempt fetches it."""
        path = os.path.join(self._root, sha256)
        with self._locked(sha256, go_on):
            if not _is_whole(path, sha256):
                self._fetch(path, bring)
            os.utime(path, (time.time(), SEALED_S))
            yield path
        self.make_room(0, keep=sha256)

    def _fetch(self, path: str, bring: Bring) -> None:
        """A disk that the cache itself has filled is no reason to fail."""
        try:
            bring(path)
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.make_room(
                self._most_bytes, keep=os.path.basename(path)
            ):
                raise
            bring(path)
        os.chmod(path, 0o444)

    def make_room(self, wanted_bytes: int, keep: str) -> int:
        """Remove the longest unused until so much more fits within the bound; answers with what that freed."""
        entries = sorted(self._entries(), key=lambda entry: entry[1])
        over = sum(size for _, _, size in entries) + wanted_bytes - self._most_bytes
        freed = 0
        for name, _, size in entries:
            if freed >= over:
                break
            if not name.startswith(keep) and self._removed(name):
                freed += size
        return freed

    def _entries(self) -> Iterator[tuple[str, float, int]]:
        """(name, last used, bytes), partial downloads among them."""
        for entry in os.scandir(self._root):
            if entry.is_file(follow_symlinks=False):
                about = entry.stat(follow_symlinks=False)
                used_at = about.st_mtime if entry.name.endswith(".part") else about.st_atime
                yield entry.name, used_at, about.st_size

    def _removed(self, name: str) -> bool:
        """Not while somebody holds it, and no download that may still go on."""
        path = os.path.join(self._root, name)
        with self._lock_file(name) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if name.endswith(".part") and time.time() - os.stat(path).st_mtime < PART_LIFE_S:
                    return False
                os.unlink(path)
            except OSError:
                return False
        return True

    @contextlib.contextmanager
    def _locked(self, sha256: str, go_on: Callable[[], None]) -> Iterator[None]:
        with self._lock_file(sha256) as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    go_on()
                    time.sleep(LOOK_EVERY_S)
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


def _is_whole(path: str, sha256: str) -> bool:
    try:
        if os.stat(path).st_mtime == SEALED_S or sha256_of_file(path) == sha256:
            return True
    except FileNotFoundError:
        return False
    os.unlink(path)
    return False


def of_this_machine() -> Cache | None:
    """In the home directory of whoever runs us; None where nothing can be kept there."""
    try:
        return Cache(os.path.join(os.path.expanduser("~"), ".anygpu", "cache"))
    except OSError:
        return None
