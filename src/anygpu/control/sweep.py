"""Ends what exists at a provider and no live attempt owns."""

from collections.abc import Callable, Mapping, Sequence

from anygpu.backends.contract import Backend, ListsResources
from anygpu.control.policy import Policy
from anygpu.control.seams import Clock
from anygpu.errors import AnygpuError
from anygpu.events.facts import Handle
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
        self._unowned_since: dict[tuple[str, str], float] = {}

    async def run(self, live: Sequence[JobView]) -> None:
        owned = {attempt.name for view in live for attempt in view.attempts if not attempt.released}
        unowned: dict[tuple[str, str], float] = {}
        for backend in self._backends.values():
            if isinstance(backend, ListsResources):
                await self._one(backend, owned, unowned)
        self._unowned_since = unowned

    async def _one(self, backend: Backend, owned: set[str], unowned: dict[tuple[str, str], float]) -> None:
        try:
            assert isinstance(backend, ListsResources)
            for handle in await backend.inventory():
                if handle.name not in owned:
                    await self._orphan(backend, handle, unowned)
        except AnygpuError as error:
            self._report(f"sweeping {backend.name} failed and will be tried again", error)

    async def _orphan(self, backend: Backend, handle: Handle, unowned: dict[tuple[str, str], float]) -> None:
        key, now = (backend.name, handle.name), self._clock.monotonic()
        since = self._unowned_since.get(key, now)
        unowned[key] = since
        if now - since >= self._policy.sweep_grace_s:
            await backend.terminate(handle)
