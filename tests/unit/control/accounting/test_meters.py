"""The ledger is compared with the provider's meter: once, later when it does not say, and loudly when it differs."""

import asyncio

from tests.unit.control.jobs_in_states import ended, training
from tests.unit.control.shelf import Shelf

from anygpu.backends.contract import MachineState, Observation
from anygpu.control.accounting.meters import MeterChecker
from anygpu.control.policy import ControlPolicy
from anygpu.events.facts import Usage
from anygpu.events.offers import Handle
from anygpu.events.types import AttemptReleased, JobCompleted, JobSubmitted, MeterDiffered
from anygpu.spec.load import from_mapping
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

LAB = Scope(organisation="lab", project="p")
USAGE = Usage(started_at_ms=0, ended_at_ms=1, cost_microusd=5_000)


class Metered(Shelf):
    """A place whose meter says these things, one after the other."""

    def __init__(self, *says: int | None) -> None:
        super().__init__("cloud")
        self.says, self.asked = list(says), 0

    async def metered_microusd(self, handle: Handle) -> int | None:
        self.asked += 1
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]

    async def probe(self, handle: Handle) -> Observation:
        return Observation(state=MachineState.GONE)


def read(cloud: Metered, *pauses_s: float, delete: bool = False) -> tuple[list[MeterDiffered], list[str]]:
    """The alarms in the journal and those that were reported, after a reading after each pause."""
    reports: list[str] = []

    async def story(loop: VirtualLoop) -> list[MeterDiffered]:
        clock, journal = VirtualClock(loop), MemoryJournal(now_s=loop.time)
        await journal.submit(LAB, "job", JobSubmitted(spec=from_mapping({"script": "t.py"})), at_ms=1)
        history = [*training(), ended(exit_code=0), AttemptReleased(attempt=1, usage=USAGE), JobCompleted()]
        written = await journal.transact(SYSTEM, "job", lambda _: history, at_ms=2)
        meters = MeterChecker(
            journal, {"cloud": cloud}, clock, ControlPolicy(meter_every_s=30, meter_for_s=1000)
        )
        guard = await journal.acquire("control", "me", ttl_s=9999)
        assert guard is not None
        for pause_s in pauses_s:
            await asyncio.sleep(pause_s)
            meters.update(written.view)
            if delete:
                await journal.delete(LAB, "job", at_ms=3)
            await meters.run(guard, lambda what, error: reports.append(f"{what}: {error}"))
        events = [recorded.event for recorded in await journal.events(LAB, after=0, limit=99)]
        return [event for event in events if isinstance(event, MeterDiffered)]

    return run(story), reports


def test_a_meter_that_agrees_is_asked_once_and_says_nothing() -> None:
    cloud = Metered(5_005)
    assert read(cloud, 0, 100, 100) == ([], [])
    assert cloud.asked == 1


def test_a_meter_that_differs_is_an_alarm_written_and_reported_once() -> None:
    alarms, reports = read(Metered(6_000), 0, 150, 100)
    assert alarms == [MeterDiffered(attempt=1, ours_microusd=5_000, theirs_microusd=6_000)]
    assert len(reports) == 1
    assert "the provider charges 6000 micro-dollars, but anygpu recorded 5000" in reports[0]


def test_the_meter_of_a_deleted_job_is_not_read_again() -> None:
    cloud = Metered(6_000)
    assert read(cloud, 0, delete=True) == ([], [])
    assert cloud.asked == 1


def test_a_charge_that_is_in_the_ledger_a_moment_later_is_no_alarm() -> None:
    cloud = Metered(6_000, 5_000)  # as if the sweeper had written down the rest meanwhile
    assert read(cloud, 0, 149) == ([], [])
    assert cloud.asked == 1
    assert read(Metered(6_000, 5_000), 0, 150) == ([], [])


def test_a_provider_that_charges_less_is_an_alarm_at_once() -> None:
    assert len(read(Metered(4_000), 0)[0]) == 1


def test_a_meter_that_does_not_say_yet_is_asked_again_later_and_later() -> None:
    cloud = Metered(None, None, 6_000)
    assert read(cloud, 0, 29)[0] == []
    assert cloud.asked == 1
    assert len(read(Metered(None, None, 6_000), 0, 30, 60, 150)[0]) == 1


def test_a_meter_that_never_says_is_given_up_however_long_the_job_lives() -> None:
    cloud = Metered(None)
    read(cloud, 0, *[1000] * 9)
    assert cloud.asked == 2  # at once, and once after its time
