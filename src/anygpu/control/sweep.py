"""Ends what exists at a provider and no live attempt owns."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from anygpu.backends.contract import Backend, ListsResources
from anygpu.control.policy import Policy
from anygpu.control.seams import Clock
from anygpu.events.view import JobView


class Sweeper:
    """Compares each provider's inventory with the journal. What is unowned twice, some time apart, is ended."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        clock: Clock,
        policy: Policy,
        report: Callable[[str, Exception], None],
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._policy = policy
        self._report = report
        self._unowned: dict[str, dict[str, float]] = {}  # by backend: since when, by name

    async def run(self, live: Sequence[JobView]) -> None:
        """Each backend and each machine by itself: one that fails must not shield the others."""
        owned = {attempt.name for view in live for attempt in view.attempts if not attempt.released}
        for backend in self._backends.values():
            if isinstance(backend, ListsResources):
                await self._tried(backend, f"listing {backend.name}", self._one(backend, backend, owned))

    async def _one(self, backend: Backend, lists: ListsResources, owned: set[str]) -> None:
        orphans = [handle for handle in await lists.inventory() if handle.name not in owned]
        now, known = self._clock.monotonic(), self._unowned.get(backend.name, {})
        since = {handle.name: known.get(handle.name, now) for handle in orphans}
        self._unowned[backend.name] = since
        for handle in orphans:
            if now - since[handle.name] >= self._policy.sweep_grace_s:
                await self._tried(backend, f"ending {handle.name}", backend.terminate(handle))

    async def _tried(self, backend: Backend, what: str, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  whatever an adapter raises
            self._report(f"sweeping {backend.name}: {what} failed and will be tried again", error)
