"""What the provider itself says an attempt cost."""

from collections.abc import Callable

from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.owned import OwnedMachines
from anygpu.backends.vm.provider import Meters
from anygpu.events.offers import Handle


class Meter:
    """The capability of a backend whose provider has a meter."""

    def __init__(
        self, provider: Meters, machines: OwnedMachines, known: Callable[[Handle], VmAttempt]
    ) -> None:
        self._provider = provider
        self._machines = machines
        self._known = known

    async def metered_microusd(self, handle: Handle) -> int | None:
        machine = self._known(handle).machine
        return (
            None
            if machine is None
            else await self._provider.metered_microusd(self._machines.outside(machine))
        )
