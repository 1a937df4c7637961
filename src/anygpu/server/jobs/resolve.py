"""Find a job by its id, a unique beginning or end of its id, its name, or `last`; and check the number of a node."""

import re
from itertools import pairwise

from anygpu.errors import Conflict, NotFound
from anygpu.events.view import JobView
from anygpu.store.journal import JobQuery, Journal
from anygpu.store.scope import Scope

MIN_PREFIX = 8
_HEX = re.compile(r"[0-9a-f]+")


async def resolve_job(journal: Journal, scope: Scope, reference: str) -> JobView:
    """Return the job that `reference` names. Raise NotFound, also if it exists in another project."""
    if reference == "last":
        return await _find_newest(journal, scope, JobQuery(limit=1), "This project has no jobs yet")
    digits = reference.lower().replace("-", "")
    if len(digits) == 32 and _HEX.fullmatch(digits):
        return await journal.view(scope, uuid_prefix(digits))
    if MIN_PREFIX <= len(digits) < 32 and _HEX.fullmatch(digits):
        view = await _find_by_digits(journal, scope, reference, digits)
        if view is not None:
            return view
    return await _find_newest(
        journal, scope, JobQuery(name=reference, limit=1), _not_found_message(reference, digits)
    )


def require_node(view: JobView, node: int) -> None:
    """Raise NotFound if the job has no machine (node) with this number."""
    count = view.spec.resources.nodes
    if node >= count:
        nodes = f"its nodes are 0 to {count - 1}" if count > 1 else "it runs on one machine, which is node 0"
        raise NotFound(f"Job {view.name or view.id} has no node {node}; {nodes}.")


def _not_found_message(reference: str, digits: str) -> str:
    message = f"There is no job with the name or id {reference!r} in this project"
    short = len(digits) < MIN_PREFIX and _HEX.fullmatch(digits)
    return f"{message}; to give only a part of an id, give at least {MIN_PREFIX} digits" if short else message


def uuid_prefix(digits: str) -> str:
    """Format hex digits as the beginning of a UUID, with dashes."""
    cuts = (0, 8, 12, 16, 20, 32)
    parts = (digits[start:end] for start, end in pairwise(cuts))
    return "-".join(part for part in parts if part)


async def _find_by_digits(journal: Journal, scope: Scope, reference: str, digits: str) -> JobView | None:
    """Return the only job whose id begins or ends with these digits; None if there is none."""
    queries = [JobQuery(id_prefix=uuid_prefix(digits), limit=2), JobQuery(id_suffix=digits, limit=2)]
    found = {view.id: view for query in queries for view in (await journal.find(scope, query)).jobs}
    if len(found) > 1:
        raise Conflict(
            f"Several jobs have an id that begins or ends with {reference!r}, so it is not clear which one is "
            "meant",
            hint="Give more digits of the id; `anygpu ls --json` shows whole ids.",
        )
    return next(iter(found.values()), None)


async def _find_newest(journal: Journal, scope: Scope, query: JobQuery, message: str) -> JobView:
    page = await journal.find(scope, query)
    if not page.jobs:
        raise NotFound(message, hint="`anygpu ls` shows the jobs of this project.")
    return page.jobs[0]
