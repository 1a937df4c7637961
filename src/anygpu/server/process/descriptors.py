"""The file descriptors of the process: raise their limit, and share them between the listeners."""

import resource
from contextlib import suppress

WANTED = 65_536
FALLBACK = 10_240  # the maximum of macOS
RESERVED = 256  # for the database, blobs, jobs and connections to providers
LISTENERS = 2


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files towards the hard limit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (WANTED, FALLBACK):
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or allowed <= soft:
            break
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            return allowed
    return WANTED if soft == resource.RLIM_INFINITY else soft


def connections_per_listener(wanted: int, descriptors: int) -> int:
    """Return how many connections each listener may have, so that together they leave descriptors for the rest.

    As many connections again can wait to be accepted: the event loop accepts all of them before it counts them.
    """
    return max(1, min(wanted, (descriptors - RESERVED) // (2 * LISTENERS)))
