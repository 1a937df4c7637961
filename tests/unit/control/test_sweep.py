"""What exists and nobody owns is ended, whatever fails beside it."""

from collections.abc import Sequence

from tests.unit.control.jobs_in_states import launched, view

from anygpu.backends.contract import Launch, Observation, State
from anygpu.control.policy import Policy
from anygpu.control.sweep import Sweeper
from anygpu.events.facts import Handle, Offer
from anygpu.spec.model import Resources
from anygpu.testing.virtual import VirtualClock, VirtualLoop, run

POLICY = Policy(sweep_grace_s=30)


class Inventory:
    """A place that lists what it is told to, and may refuse to end some of it."""

    probe_every_s = 0.0

    def __init__(self, name: str, *listed: str, stuck: str = "", silent: bool = False) -> None:
        self.name, self.listed, self.ended = name, list(listed), list[str]()
        self._stuck, self._silent = stuck, silent

    async def inventory(self) -> Sequence[Handle]:
        if self._silent:
            raise TimeoutError
        return [Handle(name=name) for name in self.listed]

    async def terminate(self, handle: Handle) -> None:
        if handle.name == self._stuck:
            raise OSError("not now")
        self.ended.append(handle.name)

    async def offers(self, need: Resources) -> Sequence[Offer]:
        return []

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        return Handle(name=launch.name)

    async def probe(self, handle: Handle) -> Observation:
        return Observation(state=State.RUNNING)


def swept(*places: Inventory, pause_s: float = 60.0) -> list[str]:
    """Sweep twice; what was reported."""
    reports: list[str] = []
    jobs = [view(*launched())]

    async def twice(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        backends = {place.name: place for place in places}
        sweeper = Sweeper(backends, clock, POLICY, lambda what, error: reports.append(what))
        await sweeper.run(jobs)
        await clock.sleep(pause_s)
        await sweeper.run(jobs)

    run(twice)
    return reports


def test_what_a_live_attempt_owns_is_left_alone() -> None:
    box = Inventory("box", "anygpu-job-1", "anygpu-other-1")
    assert swept(box) == []
    assert box.ended == ["anygpu-other-1"]


def test_what_was_seen_unowned_only_a_moment_ago_is_left_alone() -> None:
    box = Inventory("box", "anygpu-other-1")
    swept(box, pause_s=29)
    assert box.ended == []


def test_a_machine_that_cannot_be_ended_does_not_shield_the_next() -> None:
    box = Inventory("box", "anygpu-a-1", "anygpu-b-1", stuck="anygpu-a-1")
    assert swept(box) == ["sweeping box: ending anygpu-a-1 failed and will be tried again"]
    assert box.ended == ["anygpu-b-1"]


def test_a_place_that_does_not_answer_does_not_shield_the_next() -> None:
    silent, box = Inventory("silent", silent=True), Inventory("box", "anygpu-a-1")
    assert len(swept(silent, box)) == 2
    assert box.ended == ["anygpu-a-1"]
