"""What exists and nobody owns is ended, whatever fails beside it."""

from collections.abc import Sequence

from tests.unit.control.jobs_in_states import launched, view
from tests.unit.control.shelf import Shelf

from anygpu.backends.contract import Leftover, MachineState, Observation
from anygpu.control.ids import attempt_name
from anygpu.control.policy import ControlPolicy
from anygpu.control.sweep import EndedOrphan, OrphanResource, Sweeper
from anygpu.events.offers import Handle
from anygpu.testing.samples.jobs import job_id
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

POLICY = ControlPolicy(sweep_grace_s=30)


class Inventory(Shelf):
    """A place that lists what it is told to, and may refuse to end some of it."""

    def __init__(self, name: str, *listed: str, stuck: str = "", silent: bool = False) -> None:
        super().__init__(name)
        self.listed, self.ended = list(listed), list[str]()
        self._stuck, self._silent = stuck, silent

    async def inventory(self) -> Sequence[Handle]:
        if self._silent:
            raise TimeoutError
        return [Handle(name=name) for name in self.listed]

    async def terminate(self, handle: Handle) -> None:
        if handle.name == self._stuck:
            raise OSError("not now")
        self.ended.append(handle.name)


class Landlord(Inventory):
    """A place whose machines leave things behind, and that tells what an ended one has cost."""

    def __init__(self, name: str, *listed: str, left: Sequence[Leftover] = ()) -> None:
        super().__init__(name, *listed)
        self.left, self.removed = list(left), list[str]()

    async def leftovers(self) -> Sequence[Leftover]:
        return self.left

    async def remove(self, leftover: Leftover) -> None:
        self.removed.append(leftover.id)

    async def probe(self, handle: Handle) -> Observation:
        state = MachineState.GONE if handle.name in self.ended else MachineState.RUNNING
        return Observation(state=state, started_at_ms=1000, ended_at_ms=2000)


def swept(*places: Inventory, pause_s: float = 60.0) -> list[str]:
    """Sweep twice; what was reported."""
    reports: list[str] = []
    jobs = [view(*launched())]

    async def twice(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        backends = {place.name: place for place in places}
        sweeper = Sweeper(backends, clock, POLICY, lambda what, error: reports.append(what))
        await sweeper.run(jobs, {})
        await clock.sleep(pause_s)
        await sweeper.run(jobs, {})

    run(twice)
    return reports


def test_what_a_live_attempt_owns_is_left_alone() -> None:
    box = Inventory("box", "anygpu-job-1", "anygpu-other-1")
    assert swept(box) == []
    assert box.ended == ["anygpu-other-1"]


def test_machines_of_a_damaged_job_are_kept_for_a_while_and_then_ended() -> None:
    machine = attempt_name(job_id(1), 3)  # the attempts of a damaged job may be unknown

    async def story(loop: VirtualLoop) -> tuple[list[str], list[str]]:
        clock, cloud = VirtualClock(loop), Inventory("cloud", machine)
        policy = ControlPolicy(sweep_grace_s=30, damaged_grace_s=600)
        sweeper = Sweeper({"cloud": cloud}, clock, policy, lambda what, error: None)
        damaged = {job_id(1): clock.monotonic()}
        for _ in range(10):
            await sweeper.run([], damaged)
            await clock.sleep(59)
        before = list(cloud.ended)
        for _ in range(3):
            await clock.sleep(59)
            await sweeper.run([], damaged)
        return before, cloud.ended

    before, after = run(story)
    assert before == []
    assert set(after) == {machine}


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


ADDRESSES = [
    Leftover(kind="address", id="a1", name="anygpu-job-1"),
    Leftover(kind="address", id="a2", name="anygpu-other-1"),
    Leftover(kind="group", id="g1", name=""),
]


def test_what_machines_leave_behind_is_removed_unless_its_attempt_lives_or_all_share_it() -> None:
    cloud = Landlord("cloud", left=ADDRESSES)
    assert swept(cloud) == []
    assert cloud.removed == ["a2"]


def test_orphans_are_shown_with_what_they_are_and_since_when() -> None:
    async def story(loop: VirtualLoop) -> list[OrphanResource]:
        clock = VirtualClock(loop, start_ms=5_000)
        cloud = Landlord("cloud", "anygpu-other-1", left=ADDRESSES)
        sweeper = Sweeper({"cloud": cloud}, clock, POLICY, lambda what, error: None)
        await sweeper.run([view(*launched())], {})
        return sweeper.orphans()

    address, machine = run(story)
    assert (address.kind, address.id, address.name) == ("address", "a2", "anygpu-other-1")
    assert machine == OrphanResource(backend="cloud", kind="machine", name="anygpu-other-1", since_ms=5_000)


def test_a_machine_that_was_swept_is_looked_for_until_its_cost_is_known() -> None:
    async def story(loop: VirtualLoop) -> list[list[EndedOrphan]]:
        clock = VirtualClock(loop)
        cloud = Landlord("cloud", "anygpu-other-1")
        sweeper = Sweeper({"cloud": cloud}, clock, POLICY, lambda what, error: None)
        told = []
        for _ in range(3):
            await sweeper.run([], {})
            told.append(await sweeper.collect_ended())
            await clock.sleep(60)
            cloud.listed = [name for name in cloud.listed if name not in cloud.ended]
        return told

    nothing, gone, after = run(story)
    assert (nothing, after) == ([], [])
    assert [(swept.name, swept.observation.ended_at_ms) for swept in gone] == [("anygpu-other-1", 2000)]
