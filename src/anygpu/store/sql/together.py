"""Looks at hundreds of things in the same moment are one read."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key")
Found = TypeVar("Found")


class Together(Generic[Key, Found]):
    """What is asked for in one turn of the event loop is read at once, after all of it was asked for."""

    def __init__(self, read: Callable[[Sequence[Key]], Awaitable[Mapping[Key, Found]]]) -> None:
        self._read = read
        self._asked: dict[Key, None] = {}  # by the next read
        self._next: asyncio.Task[Mapping[Key, Found]] | None = None

    async def get(self, key: Key) -> Found:
        self._asked[key] = None
        if self._next is None or self._next.done():  # done: it was cancelled before it began
            self._next = asyncio.create_task(self._read_all())
        # Shielded: one who no longer waits must not take the answer away from the others.
        return (await asyncio.shield(self._next))[key]

    async def _read_all(self) -> Mapping[Key, Found]:
        asked, self._asked, self._next = [*self._asked], {}, None
        return await self._read(asked)
