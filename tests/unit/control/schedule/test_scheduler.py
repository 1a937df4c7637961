"""Who gets a place, and what those are told who do not."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.unit.control.shelf import Shelf

from anygpu.control.agents.tickets import Tickets
from anygpu.control.policy import ControlPolicy, SharingPolicy
from anygpu.control.schedule.candidates import CandidateSource
from anygpu.control.schedule.compare import OfferComparer
from anygpu.control.schedule.deadline import DeadlineTracker
from anygpu.control.schedule.scheduler import Scheduler
from anygpu.events.facts import Blame, Failure, Usage
from anygpu.events.offers import Billing, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    Event,
    JobSubmitted,
    MigrateRequested,
    RecoveryStarted,
    StopRequested,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.job import analyse_job
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.uploads import Plans
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

CHEAP = Offer(backend="cheap", price_microusd_per_hour=360_000)
DEAR = Offer(backend="dear", price_microusd_per_hour=3_600_000)
TAKEN = Failure(code="preempted", message="taken back", blame=Blame.PREEMPTION)
FULL = Failure(code="no_capacity", message="no capacity", blame=Blame.LAUNCH)


class Office:
    """A journal with jobs, and a placing that sees them all."""

    def __init__(self, loop: VirtualLoop, *offers: Offer, visible: Any = None, **policy: Any) -> None:
        clock = VirtualClock(loop, start_ms=1_000_000)
        shelves = {offer.backend: Shelf(offer.backend, offer) for offer in offers}
        self.clock, self.journal = clock, MemoryJournal(now_s=loop.time)
        self.code: dict[str, str] = {}
        blobs = MemoryBlobs(clock.wall_ms)
        checkpoints, comparing = (
            Checkpoints(blobs),
            OfferComparer(self._read, Plans(blobs), clock, allow_paid=policy.get("allow_paid", True)),
        )
        rules, more = (
            ControlPolicy(**{"allow_paid": True, **policy}),
            {"is_visible": visible} if visible else {},
        )
        offers_of = CandidateSource(shelves, comparing, clock, rules, **more)
        deadlines = DeadlineTracker(clock, rules)
        self._scheduler = Scheduler(
            self.journal, offers_of, deadlines, checkpoints, comparing, Tickets(b"s"), clock, rules
        )

    async def _read(self, spec: JobSpec, organisation: str) -> Analysis | None:
        return analyse_job(spec, self.code)

    async def submit(self, name: str, *events: Event, organisation: str = "lab", **spec: Any) -> None:
        scope = Scope(organisation=organisation, project="p")
        asked = JobSubmitted(spec=from_mapping({"script": "train.py", **spec}))
        await self.journal.submit(scope, name, asked, at_ms=self.clock.wall_ms())
        if events:
            await self.journal.transact(SYSTEM, name, lambda _: events, at_ms=self.clock.wall_ms())

    async def place(self) -> dict[str, str]:
        """One pass: where each job went, or what it was told."""
        views = await self.journal.live()
        guard = await self.journal.acquire("control", "me", ttl_s=60)
        assert guard is not None
        await self._scheduler.run(views, views, guard)
        return {view.id: _outcome(await self.journal.view(SYSTEM, view.id)) for view in views}


def _outcome(view: JobView) -> str:
    if view.failure is not None:
        return f"{view.failure.code}: {view.failure.message}"
    live = view.live_attempt
    return view.reason if live is None else live.offer.backend


def placed(story: Callable[[VirtualLoop], Any]) -> dict[str, str]:
    outcome: dict[str, str] = run(story)
    return outcome


def interrupted(offer: Offer, failure: Failure, cost: int = 0) -> list[Event]:
    """One attempt that ended so, was released, and has cost this much."""
    usage = Usage(started_at_ms=0, ended_at_ms=1, cost_microusd=cost) if cost else None
    return [
        AttemptLaunching(attempt=1, name="a-1", offer=offer, ticket_sha256=""),
        AttemptLost(attempt=1, evidence=failure.message, failure=failure),
        AttemptReleased(attempt=1, usage=usage),
        RecoveryStarted(attempt=1, failure=failure, delay_s=0, work_lost_s=0, counts=False),
    ]


def test_paid_attempts_of_an_organisation_are_limited_launches_included() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, CHEAP, max_paid_attempts=2)
        for name in ("a", "b", "c"):
            await office.submit(name)
        await office.submit("d", organisation="other")
        return await office.place()

    wait = "the limit of 2 paid attempts of lab is reached (control.paid_attempts)"
    assert placed(story) == {"a": "cheap", "b": "cheap", "c": wait, "d": "cheap"}


def test_a_job_that_did_not_ask_for_paid_machines_waits_for_the_own_machine() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, Offer(backend="box", cpus=1, free=1), CHEAP, allow_paid=False)
        for name in ("a", "b"):
            await office.submit(name)
        await office.submit("c", placement={"paid": True})
        await office.submit("d", limits={"max_cost": 5})
        await office.submit("e", placement={"strategy": "cheapest", "paid": False})
        return await office.place()

    full = "all slots of box are taken"
    assert placed(story) == {"a": "box", "b": full, "c": "cheap", "d": "cheap", "e": full}


def test_where_only_paid_machines_fit_the_reason_names_the_option() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, CHEAP, allow_paid=False)
        await office.submit("a")
        return await office.place()

    assert "--paid" in placed(story)["a"]


def test_a_job_that_was_moved_to_a_paid_machine_keeps_the_consent() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, CHEAP, DEAR, allow_paid=False)
        await office.submit("ran", *interrupted(CHEAP, TAKEN))
        await office.submit("moved", MigrateRequested(to="dear"))
        return await office.place()

    assert placed(story) == {"ran": "dear", "moved": "dear"}


def test_jobs_that_ask_for_the_same_go_on_to_the_next_place_when_one_is_full() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, replace(CHEAP, free=2), DEAR, max_paid_attempts=9)
        for name in ("a", "b", "c", "d"):
            await office.submit(name)
        return await office.place()

    assert placed(story) == {"a": "cheap", "b": "cheap", "c": "dear", "d": "dear"}


def test_a_place_of_ones_own_is_not_limited() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, Offer(backend="box"), max_paid_attempts=0)
        await office.submit("a")
        return await office.place()

    assert placed(story) == {"a": "box"}


def test_a_backend_another_organisation_configured_is_not_seen() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        def visible(backend: str, organisation: str) -> bool:
            return backend == "dear" or organisation == "lab"

        office = Office(loop, CHEAP, DEAR, visible=visible)
        await office.submit("ours")
        await office.submit("theirs", organisation="other")
        return await office.place()

    assert placed(story) == {"ours": "cheap", "theirs": "dear"}


def test_after_a_refusal_the_next_place_is_taken_at_once() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, CHEAP, DEAR)
        await office.submit("a", *interrupted(CHEAP, FULL))
        return await office.place()

    assert placed(story) == {"a": "dear"}


def test_when_every_place_refused_the_job_waits_and_says_why() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, CHEAP)
        await office.submit("a", *interrupted(CHEAP, FULL))
        return await office.place()

    assert placed(story) == {"a": "cheap: no capacity"}


def test_after_a_preemption_another_place_comes_first_and_the_same_one_if_there_is_no_other() -> None:
    async def story(loop: VirtualLoop, *offers: Offer) -> dict[str, str]:
        office = Office(loop, *offers)
        await office.submit("a", *interrupted(CHEAP, TAKEN))
        return await office.place()

    assert placed(lambda loop: story(loop, CHEAP, DEAR)) == {"a": "dear"}
    assert placed(lambda loop: story(loop, CHEAP)) == {"a": "cheap"}


def test_a_job_that_is_to_move_goes_there_first() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, CHEAP, DEAR)
        await office.submit("a", MigrateRequested(to="dear"))
        return await office.place()

    assert placed(story) == {"a": "dear"}


def test_nothing_is_launched_that_could_not_pay_for_its_minimum_and_some_use() -> None:
    hourly = replace(CHEAP, billing=Billing(step_s=3600, minimum_s=3600))

    async def story(loop: VirtualLoop, *offers: Offer, cost: int = 0) -> dict[str, str]:
        office = Office(loop, *offers, min_useful_s=60, stop_allowance_s=40)
        earlier = interrupted(DEAR, TAKEN, cost) if cost else []
        await office.submit("a", *earlier, limits={"max_cost_microusd": 100_000})
        return await office.place()

    too_dear = "cheap: costs at least $0.3600, which is more than the remaining budget"
    assert placed(lambda loop: story(loop, CHEAP)) == {"a": "cheap"}
    assert placed(lambda loop: story(loop, DEAR)) == {"a": "dear"}
    assert placed(lambda loop: story(loop, hourly)) == {"a": too_dear}
    assert placed(lambda loop: story(loop, CHEAP, DEAR, cost=1)) == {"a": "cheap"}


def test_a_job_whose_budget_pays_for_nothing_any_more_fails_and_says_what_it_spent() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, DEAR, min_useful_s=60, stop_allowance_s=40)
        await office.submit("a", *interrupted(DEAR, TAKEN, 50_000), limits={"max_cost_microusd": 100_000})
        return await office.place()

    assert placed(story)["a"].startswith("budget: the budget is used up: $0.0500 of $0.10 spent; ")


QUICK = Offer(
    backend="quick", gpu_kind="H100", gpu_count=1, gpu_memory_gib=80, price_microusd_per_hour=3_000_000
)
SLOW = Offer(backend="slow", gpu_kind="T4", gpu_count=1, gpu_memory_gib=16, price_microusd_per_hour=500_000)
SCRIPT = """
import torch, torchvision
model = torchvision.models.resnet50().cuda()
loader = torch.utils.data.DataLoader(torchvision.datasets.ImageFolder("data"), batch_size=64)
optimiser = torch.optim.AdamW(model.parameters())
for epoch in range(20):
    for x, y in loader:
        model(x).sum().backward()
        optimiser.step()
"""


def where(strategy: str | None = None, *offers: Offer, **spec: Any) -> JobView:
    """The job after one pass."""

    async def story(loop: VirtualLoop) -> JobView:
        office = Office(loop, *(offers or (QUICK, SLOW)))
        office.code["train.py"] = SCRIPT
        await office.submit("a", placement={"strategy": strategy} if strategy else {}, **spec)
        await office.place()
        return await office.journal.view(SYSTEM, "a")

    found: JobView = run(story)
    return found


def test_the_cheapest_place_is_the_one_that_is_cheapest_to_finish() -> None:
    job = where("cheapest")
    assert job.attempts[0].offer.backend == "quick"  # six times the price an hour, but done much sooner
    assert job.plan.startswith("org/lab/plans/")
    assert job.predicted is not None
    assert (job.predicted.basis, job.predicted) == ("code", job.prediction)
    assert job.predicted.wall_low_s < job.predicted.wall_s < job.predicted.wall_high_s


def test_the_fastest_place_is_chosen_even_over_a_free_machine_of_ones_own() -> None:
    own = replace(SLOW, backend="own", price_microusd_per_hour=0, free=1)
    assert where("fastest", own, QUICK).attempts[0].offer.backend == "quick"
    assert where(None, own, QUICK).attempts[0].offer.backend == "own"
    taken = where(None, own)
    assert (taken.attempts[0].offer.backend, taken.plan) == ("own", "")


def test_code_that_needs_a_gpu_is_not_sent_to_a_free_machine_without_one_if_it_may_be_paid_for() -> None:
    own = Offer(backend="own", free=1)
    assert where(None, own, QUICK).attempts[0].offer.backend == "quick"
    assert where(None, own).attempts[0].offer.backend == "own"


def test_the_queue_waits_for_machines_of_ones_own() -> None:
    full = Offer(backend="own", free=0, wait_reason="all slots of own are taken")
    assert where("queue", full, QUICK).reason == "all slots of own are taken"
    assert where("cheapest", full, QUICK).attempts[0].offer.backend == "quick"


def test_a_sure_prediction_beyond_the_budget_keeps_the_job_away_and_a_doubtful_one_does_not() -> None:
    limits = {"max_cost": 0.5}
    said = where("cheapest", limits=limits, script="other.py")
    assert said.live_attempt is not None  # nothing is known of other.py: the budget itself will stop it

    async def story(loop: VirtualLoop) -> JobView:
        office = Office(loop, QUICK, SLOW)
        await office.submit(
            "a", limits=limits, placement={"strategy": "cheapest", "expected_duration": "10h"}
        )
        await office.place()
        return await office.journal.view(SYSTEM, "a")

    known: JobView = run(story)
    assert known.live_attempt is None
    assert "more than the $0.50 allowed" in known.reason


BOX = Offer(backend="box", cpus=1, free=1)
TRAINS: list[Event] = [
    AttemptLaunching(attempt=1, name="a-1", offer=BOX, ticket_sha256=""),
    AttemptClaimed(attempt=1, claimant="agent"),
    TrainingStarted(attempt=1),
]


def stops_after(hours: float, **policy: Any) -> Callable[[VirtualLoop], Any]:
    async def story(loop: VirtualLoop) -> str:
        office = Office(loop, replace(BOX, free=0), **policy)
        await office.submit("long", *TRAINS, checkpoint={"paths": ["*.pt"], "resume_args": ["--resume"]})
        await office.submit("new", organisation="other")
        await asyncio.sleep(hours * 3600)
        await office.place()
        live = (await office.journal.view(SYSTEM, "long")).live_attempt
        assert live is not None
        return f"{live.stop_reason} for {live.makes_room_for}"

    return story


def test_a_job_that_has_run_long_is_asked_to_make_room() -> None:
    assert run(stops_after(2)) == "preempt for new"
    assert run(stops_after(0.9)) == "None for "


def test_nobody_is_asked_where_the_settings_say_so() -> None:
    assert run(stops_after(2, sharing=SharingPolicy(preempt=False))) == "None for "


def test_a_project_that_may_not_borrow_waits_at_its_quota() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        sharing = SharingPolicy(quotas={"lab/p": 1}, may_borrow=False)
        office = Office(loop, replace(BOX, cpus=4, free=4), sharing=sharing)
        for name in ("a", "b"):
            await office.submit(name)
        await office.submit("c", organisation="other")
        return await office.place()

    wait = "its project already uses its quota of 1 slots (GPUs or CPUs), and may not use slots of other projects"
    assert placed(story) == {"a": "box", "b": wait, "c": "box"}


def test_while_room_is_made_for_a_job_nobody_behind_it_takes_it() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, replace(BOX, cpus=4, free=1))
        makes = StopRequested(attempt=1, reason="preempt", makes_room_for="wide")
        await office.submit(
            "long", *TRAINS, makes, checkpoint={"paths": ["*.pt"], "resume_args": ["--resume"]}
        )
        await office.submit("wide", resources={"cpus": 8}, priority=1)
        await office.submit("small")
        return await office.place()

    assert placed(story)["small"] == "all slots of box are taken"


def test_a_job_that_made_room_is_told_so_while_it_waits() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, replace(BOX, free=0))
        words = "preempted by job x; resumes from its checkpoint when slots are free"
        stop = StopRequested(attempt=1, reason="preempt", message=words, makes_room_for="x")
        preempt = Failure(code="preempt", message=words, blame=Blame.PREEMPTION)
        after: list[Event] = [
            stop,
            AttemptEnded(attempt=1, outcome="stopped"),
            AttemptReleased(attempt=1),
            RecoveryStarted(attempt=1, failure=preempt, delay_s=0, work_lost_s=0, counts=False),
        ]
        await office.submit("long", *TRAINS, *after)
        return await office.place()

    told = "preempted by job x; resumes from its checkpoint when slots are free: all slots of box are taken"
    assert placed(story) == {"long": told}


GROUP = Offer(backend="lab", name="group", free=4, max_nodes=4, own=True)


def test_a_job_on_several_machines_gets_all_of_them_or_waits() -> None:
    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, GROUP)
        for name in ("a", "b"):
            await office.submit(name, resources={"nodes": 3})
        await office.submit("c", resources={"nodes": 5})
        return await office.place()

    outcome = placed(story)
    assert outcome["a"] == "lab"
    assert outcome["b"] == "1 of the 3 machines that the job needs are free"
    assert "gives a job at most 4 machines, the job needs 5" in outcome["c"]
