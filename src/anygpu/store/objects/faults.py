"""Vendor errors become ours here, and only here; the cause is kept."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from anygpu.errors import AnygpuError, BackendUnavailable, BlobMissing, StorageFull

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def reading(key: str) -> Iterator[None]:
    """While a blob is read, nothing found means that this blob is missing."""
    try:
        yield
    except _vendor_errors() as error:
        raise (_missing(key) if _is_absence(error) else translate(error, key)) from error


def _is_absence(error: Exception) -> bool:
    # A file where the key has a folder: the local store says so in words only.
    return isinstance(error, FileNotFoundError) or "Not a directory" in str(error)


def _missing(key: str) -> BlobMissing:
    hint = "It was deleted by retention, or never fully uploaded."
    return BlobMissing(f"There is no blob {key!r}.", hint=hint, key=key)


@contextmanager
def writing(key: str) -> Iterator[None]:
    """While a blob is written, nothing found means that the bucket or directory itself is missing."""
    try:
        yield
    except _vendor_errors() as error:
        raise translate(error, key) from error


def translate(error: Exception, key: str) -> AnygpuError:
    if (isinstance(error, OSError) and error.errno in _FULL) or "No space left on device" in str(error):
        return StorageFull()
    said = str(error).strip().partition("\n")[0]
    return BackendUnavailable(
        f"The blob store failed at {key!r}: {said}",
        hint="It is tried again; check the storage settings, credentials and network if it goes on.",
        key=key,
    )


def _vendor_errors() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError  # imported late: only a server needs it

    return (OSError, BaseError)
