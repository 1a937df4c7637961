"""A job that was placed as it came is compared afterwards, once."""

from collections.abc import Mapping

from anygpu.control.schedule.compare import OfferComparer, PlanExplainer, lacks_plan
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching, JobSubmitted
from anygpu.events.view import JobView
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.job import analyse_job
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.uploads import Plans
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

OWN = Offer(backend="own", name="box", free=1)
OTHER = Offer(backend="cloud", name="big", gpu_kind="A100-40GB", gpu_count=1, price_microusd_per_hour=10**6)
YOLO: Mapping[str, object] = {"trainer": "yolo", "config": {"epochs": 3}, "dataset": "data"}


async def read(spec: JobSpec, organisation: str) -> Analysis | None:
    return analyse_job(spec, {})


def explained(spec: Mapping[str, object], *, broken: bool = False) -> tuple[list[JobView], dict[str, object]]:
    async def story(loop: VirtualLoop) -> tuple[list[JobView], dict[str, object]]:
        clock, journal = VirtualClock(loop, start_ms=1000), MemoryJournal(now_s=loop.time)
        blobs = MemoryBlobs(clock.wall_ms)
        asked = JobSubmitted(spec=from_mapping(dict(spec)))
        await journal.submit(Scope(organisation="lab", project="p"), "a", asked, at_ms=1)
        intent = AttemptLaunching(attempt=1, name="a-1", offer=OWN, ticket_sha256="")
        await journal.transact(SYSTEM, "a", lambda _: [intent], at_ms=2)
        guard = await journal.acquire("control", "me", ttl_s=60)
        assert guard is not None

        async def offers(view: JobView) -> list[Offer]:
            return [OWN, OTHER]

        async def unreadable(spec: JobSpec, organisation: str) -> Analysis | None:
            raise OSError("the store is away")

        explaining = PlanExplainer(
            journal, offers, OfferComparer(unreadable if broken else read, Plans(blobs), clock), clock
        )
        first = await explaining.run(await journal.live(), guard)
        again = await explaining.run(first, guard)
        return [*first, *again], await Plans(blobs).read(first[0].plan)

    found: tuple[list[JobView], dict[str, object]] = run(story)
    return found


def test_it_says_what_was_expected_where_it_is_and_what_else_there_was() -> None:
    changed, plan = explained(YOLO)
    assert [view.id for view in changed] == ["a"]
    assert not lacks_plan(changed[0])
    assert changed[0].predicted is not None
    choice, offers = plan["choice"], plan["offers"]
    assert isinstance(choice, dict)
    assert isinstance(offers, list)
    assert choice["backend"] == "own"
    assert {each["backend"] for each in offers} == {"own", "cloud"}


def test_of_a_job_of_which_nothing_is_known_nothing_is_predicted() -> None:
    for changed, _ in (explained({"command": ["true"]}), explained({"trainer": "yolo"}, broken=True)):
        assert (changed[0].predicted, changed[0].prediction) == (None, None)
        assert changed[0].plan
