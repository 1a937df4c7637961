"""Search terms, such as `status:running`, `tag:night` and `word:tra`, by which queries find jobs."""

import base64
import binascii
import re
from collections.abc import Iterator

from anygpu.errors import NotFound
from anygpu.events.facts import Status
from anygpu.events.view import JobView
from anygpu.store.journal import JobQuery

MAX_WORD = 24  # only this many characters of a word are indexed
MAX_WORDS = 48
MAX_TERM = 300
ACTIVE = tuple(str(status) for status in Status if not status.is_terminal)
ID_SUFFIX_DIGITS = 12  # after the last dash of an id

_WORD = re.compile(r"[^\W_]+")
_HEX = re.compile(r"[0-9a-f]*")


def search_terms(view: JobView) -> frozenset[str]:
    """Return all search terms (texts such as `status:running`) by which the job can be found in its current state."""
    return changing_terms(view) | frozenset(_spec_terms(view))


def changing_terms(view: JobView) -> frozenset[str]:
    """Return the search terms for status, phase and backend.

    All other terms of a job change only when a user edits it; see `editable_fields`.
    """
    terms = {f"status:{view.status}", f"phase:{view.phase}"}
    if view.newest_attempt is not None:
        terms.add(make_term("backend", view.newest_attempt.offer.backend))
    return frozenset(terms)


def editable_fields(view: JobView) -> tuple[object, ...]:
    """Return what a user can edit. If it has not changed, only `changing_terms` can have."""
    return view.name, view.tags, view.notes


def query_groups(query: JobQuery) -> list[tuple[str, ...]]:
    """Translate a query into groups of search terms. A job matches if it has at least one term of every group."""
    exact = {"name": query.name, "tag": query.tag, "backend": query.backend, "person": query.person}
    groups: list[tuple[str, ...]] = [
        (make_term(kind, value),) for kind, value in exact.items() if value is not None
    ]
    if query.status:
        groups.append(tuple(f"status:{status}" for status in dict.fromkeys(_statuses(query))))
    if query.phase:
        groups.append(tuple(f"phase:{phase}" for phase in dict.fromkeys(query.phase)))
    groups += [(f"word:{word}",) for word in split_words(query.text or "")]
    return groups


def _statuses(query: JobQuery) -> Iterator[str]:
    """Yield the statuses of a query. `active` stands for all that are not terminal."""
    for status in query.status:
        yield from ACTIVE if status == "active" else (status,)


def make_term(kind: str, value: str) -> str:
    return f"{kind}:{storable_text(value)}"[:MAX_TERM]


def storable_text(text: str) -> str:
    """Replace NUL and lone surrogates, which databases cannot store, with other characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def split_words(text: str) -> list[str]:
    """Split a text into unique lower-case words, in order."""
    return list(dict.fromkeys(word[:MAX_WORD] for word in _WORD.findall(text.casefold())))


def normalize_id_prefix(prefix: str) -> str | None:
    """Return the start of a job id in the format of stored ids, with dashes. None if no id can start with it."""
    digits = prefix.lower().replace("-", "")
    if not _HEX.fullmatch(digits) or len(digits) > 32:
        return None
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(part for part in parts if part)


def normalize_id_suffix(suffix: str) -> str | None:
    """Return the end of a job id in lower case. None if it is not a part of the last group of digits."""
    digits = suffix.lower()
    return digits if digits and len(digits) <= ID_SUFFIX_DIGITS and _HEX.fullmatch(digits) else None


def encode_cursor(position: int) -> str:
    return base64.urlsafe_b64encode(f"1:{position}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> int:
    """Return the position from which the next page of jobs starts, as the cursor says.

    Raises NotFound if the text is not a cursor from `encode_cursor`.
    """
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        version, _, position = text.partition(":")
        if version == "1" and len(position) < 19:
            return int(position)
    except (binascii.Error, ValueError):
        pass
    raise NotFound(
        "The cursor for the next page of jobs is not valid.",
        hint="Request the first page again, without a cursor.",
    )


def _spec_terms(view: JobView) -> Iterator[str]:
    yield make_term("person", view.person)
    yield make_term("name", view.name)
    yield from (make_term("tag", tag) for tag in view.tags)
    for word in split_words(_searchable_text(view))[:MAX_WORDS]:
        # Every prefix is a term, so that a prefix is found in one look-up, like a whole word.
        yield from (f"word:{word[:end]}" for end in range(1, len(word) + 1))


def _searchable_text(view: JobView) -> str:
    spec = view.spec
    command = spec.command if isinstance(spec.command, str) else " ".join(spec.command or ())
    model = spec.config.get("model", "")
    source = (spec.script or "", spec.trainer or "", str(model)[:MAX_TERM], command)
    return " ".join((view.name, *view.tags, *source, view.notes))
