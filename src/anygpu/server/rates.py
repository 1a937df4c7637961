"""Token buckets: how often one caller may ask."""

from collections import OrderedDict
from collections.abc import Callable

from anygpu.errors import RateLimited

MOST_CALLERS = 10_000


class RateLimit:
    """`per_s` requests a second for each caller, `burst` at once. Callers not seen for long are forgotten."""

    def __init__(self, per_s: float, burst: float, now: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = burst
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """RateLimited, with the seconds to wait, when the caller's bucket is empty."""
        if self._per_s <= 0:
            return
        left = self._left(caller)
        if left < 1:
            wait_s = round((1 - left) / self._per_s, 3)
            raise RateLimited(hint=f"Wait {wait_s} s and try again.", retry_after_s=wait_s)
        self._buckets[caller] = (left - 1, self._now())
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)

    def empty(self, caller: str) -> bool:
        return self._per_s > 0 and self._left(caller) < 1

    def _left(self, caller: str) -> float:
        left, at = self._buckets.get(caller, (self._burst, self._now()))
        return min(self._burst, left + (self._now() - at) * self._per_s)
