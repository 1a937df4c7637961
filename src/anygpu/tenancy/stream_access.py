"""End open streams when the token that opened them is revoked or expires."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakSet

from anygpu.errors import Unauthorized

CHECK_EVERY_S = (
    5.0  # tokens that expire, or that another server process revokes, end their streams within this time
)
Report = Callable[[str, Exception], None]


class TokenChecks(Protocol):
    async def valid_ids(self, ids: Sequence[str], *, at_ms: int) -> set[str]:
        """Return those of the tokens that are still valid."""
        ...


class StreamAccess:
    """The permission to follow one stream. It ends with its token."""

    def __init__(self, token_id: str = "", parent: str | None = None) -> None:
        self.token_id = token_id
        self._parent = parent
        self._has_ended = False
        self._on_end: Callable[[], None] = lambda: None

    def call_at_end(self, wake: Callable[[], None]) -> None:
        """Set the function that wakes the reader of the stream, so that it notices that its permission has ended."""
        self._on_end = wake

    def require(self) -> None:
        """Raise Unauthorized if the token was revoked or has expired."""
        if self._has_ended:
            raise Unauthorized(
                "The token with which this event stream was opened was revoked or has expired",
                hint="Log in again with `anygpu login`, and open the stream again.",
            )

    def belongs_to(self, token_id: str) -> bool:
        return token_id in (self.token_id, self._parent)

    def end(self) -> None:
        self._has_ended = True
        self._on_end()


class StreamAccessWatch:
    """All open streams of this process, by token. A stream that nobody follows any more is forgotten."""

    def __init__(self, tokens: TokenChecks, now_ms: Callable[[], int], report: Report) -> None:
        self._tokens = tokens
        self._now_ms = now_ms
        self._report = report
        self._open: WeakSet[StreamAccess] = WeakSet()

    def open(self, token_id: str, parent: str | None) -> StreamAccess:
        access = StreamAccess(token_id, parent)
        self._open.add(access)
        return access

    def on_revoked(self, token_id: str) -> None:
        """End the streams of a token, and those of the browser sessions made from it."""
        for access in [each for each in self._open if each.belongs_to(token_id)]:
            access.end()

    async def check(self) -> None:
        """End the streams whose tokens are no longer valid in the database."""
        ids = sorted({access.token_id for access in self._open})
        if not ids:
            return
        valid = await self._tokens.valid_ids(ids, at_ms=self._now_ms())
        for token_id in ids:
            if token_id not in valid:
                self.on_revoked(token_id)

    async def run(self) -> None:
        """Every few seconds, end the streams whose tokens are no longer valid, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            try:
                await self.check()
            except Exception as error:  # noqa: BLE001  a database that does not answer now will answer later
                self._report("tokens of open streams could not be checked; will retry", error)
