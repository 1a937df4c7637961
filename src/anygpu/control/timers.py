"""A queue of due times, one per key. The earliest due time is available in constant time."""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", str, tuple[str, int])
NEVER = float("inf")


class TimerQueue(Generic[Key]):
    """Maps keys to due times. Outdated entries of the heap are dropped when they reach its top."""

    def __init__(self) -> None:
        self._at: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def set(self, key: Key, at: float) -> None:
        if self._at.get(key) == at:
            return
        self._at[key] = at
        heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [(moment, each) for each, moment in self._at.items()]
            heapify(self._heap)

    def at(self, key: Key) -> float:
        """Return when the key is due, or NEVER if the key is not in the queue."""
        return self._at.get(key, NEVER)

    def drop(self, key: Key) -> None:
        self._at.pop(key, None)

    def next_at(self) -> float:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else NEVER

    def due(self, now: float, most: int | None = None) -> list[Key]:
        """Return at most `most` keys whose time has come, the earliest first.

        They stay due until their time is set again or they are dropped.
        """
        found: dict[Key, tuple[float, Key]] = {}
        while self.next_at() <= now and self._heap and len(found) != most:
            entry = heappop(self._heap)
            found[entry[1]] = entry
        for entry in found.values():
            heappush(self._heap, entry)
        return list(found)
