"""Warnings about what an operator should repair. `/readyz` and `anygpu doctor` show them.

`/readyz` needs no token, so the texts contain no names and no ids.
"""

from anygpu.server.services import Services


async def list_warnings(services: Services) -> list[str]:
    """Return the current warnings. Each has a sentence that says what is wrong, and one that says what to do."""
    damaged = sum(bool(view.damaged) for view in await services.queue.live())
    texts = [damaged_jobs_text(damaged) if damaged else "", services.retention.refusal]
    return [text for text in texts if text]


def damaged_jobs_text(count: int) -> str:
    jobs = "1 job has damaged events and is" if count == 1 else f"{count} jobs have damaged events and are"
    return (
        f"{jobs} not managed. Restore the database from a backup, or delete what `anygpu ls` marks as damaged;"
        " machines of such jobs are ended after a while"
    )
