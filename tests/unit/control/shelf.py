"""A backend for tests of who goes where: it offers what it is told to, and what it launches runs."""

from collections.abc import Sequence

from anygpu.backends.contract import LaunchRequest, MachineState, Observation
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources


class Shelf:
    """A place that offers what it is told to."""

    probe_every_s = 0.0

    def __init__(self, name: str, *offers: Offer) -> None:
        self.name, self._offers = name, offers

    async def offers(self, need: Resources) -> Sequence[Offer]:
        return self._offers

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        return Handle(name=launch.name)

    async def probe(self, handle: Handle) -> Observation:
        return Observation(state=MachineState.RUNNING)

    async def terminate(self, handle: Handle) -> None:
        return None
