"""Make and read the ids of jobs and the names of attempts."""

import re

from anygpu.control.clock import Clock, Randomness

SHORT_ID_DIGITS = 8


def new_job_id(clock: Clock, randomness: Randomness) -> str:
    """Return a new UUIDv7 (RFC 9562). These ids sort by time of submission."""
    value = (clock.wall_ms() & (2**48 - 1)) << 80 | int(randomness.token(10), 16)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def short_id(job_id: str) -> str:
    """Return the last eight digits of a job's id, which are random.

    The first eight are a time, and equal for all jobs of the same minute.
    """
    return job_id[-SHORT_ID_DIGITS:]


def attempt_name(job_id: str, number: int) -> str:
    """Return the name that all resources of the attempt have at their provider."""
    return f"anygpu-{job_id.replace('-', '')}-{number}"


def read_attempt_name(name: str) -> tuple[str, int] | None:
    """Parse the name of an attempt. Return the job's id and the attempt's number; None if it is not such a name."""
    found = re.fullmatch(
        r"anygpu-([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})-(\d{1,9})", name
    )
    return None if found is None else ("-".join(found.groups()[:5]), int(found[6]))
