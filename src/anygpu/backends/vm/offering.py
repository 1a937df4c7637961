"""Prices and types do not change by the second: each question is asked once a minute, however many ask it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

Ask = Callable[[Resources], Awaitable[Sequence[Offer]]]


class RememberedOffers:
    """The provider's offers for each need, shared by those who ask at the same time and kept for a while."""

    def __init__(self, ask: Ask, *, keep_s: float) -> None:
        self._ask = ask
        self._keep_s = keep_s
        self._answers: dict[Resources, tuple[float, asyncio.Task[Sequence[Offer]]]] = {}

    async def get(self, need: Resources) -> Sequence[Offer]:
        now = asyncio.get_running_loop().time()
        self._answers = {n: a for n, a in self._answers.items() if now - a[0] < self._keep_s}
        if need not in self._answers:
            self._answers[need] = now, asyncio.create_task(self._asked(need))
        # Shielded: a planner that stops waiting must not take the answer away from the next.
        return await asyncio.shield(self._answers[need][1])

    async def _asked(self, need: Resources) -> Sequence[Offer]:
        try:
            return tuple(await self._ask(need))
        except Exception:
            self._answers.pop(need, None)  # an error is not an answer: ask again next time
            raise

    async def close(self) -> None:
        tasks = [task for _, task in self._answers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
