"""Fill the database of a server that is not started yet with the costs of the last two months, until now.

Start the server with `ANYGPU_SERVER__CONTROL=false`, so that nothing acts on the job that is running.
"""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from anygpu.control.accounting.outcomes import build_outcome
from anygpu.events.facts import Blame, Failure, Prediction, Usage
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    Event,
    JobCompleted,
    JobPlanned,
    JobSubmitted,
    RecoveryStarted,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.spec.load import from_mapping
from anygpu.store.journal import Journal
from anygpu.store.outcomes import Outcomes
from anygpu.store.reports import ReportState
from anygpu.store.scope import SYSTEM, Scope
from anygpu.store.sql.engine.database import open_database
from anygpu.store.sql.journal import SqlJournal

SCOPE = Scope(organisation="local", project="default", person="root")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
DAYS = 60
TAKEN_BACK = Failure(code="preempted", message="taken back", blame=Blame.PREEMPTION)
HOSTILE = '<img src=x onerror="window.hostile=1">'

SPOT = Offer(
    backend="aws", name="g5.xlarge", region="eu-west-1", gpu_kind="A10G", gpu_count=1, gpu_memory_gib=24,
    interruptible=True, price_microusd_per_hour=430_000,
)  # fmt: skip
RUNPOD = Offer(
    backend="runpod", name="1x_RTX4090", gpu_kind="RTX4090", gpu_count=1, gpu_memory_gib=24,
    price_microusd_per_hour=740_000,
)  # fmt: skip
LAMBDA = Offer(
    backend="lambda", name="gpu_1x_h100_pcie", gpu_kind="H100", gpu_count=1, gpu_memory_gib=80,
    price_microusd_per_hour=3_290_000,
)  # fmt: skip
OWN = Offer(backend="lab", name="rig-1", gpu_kind="RTX3090", gpu_count=2, own=True, free=1)
NAMES = ("resnet50-lr", "yolo11s-helmets", "swin-t-city", "unet-cells", "siglip-b-linear", "rtdetr-aerial")


class Filler:
    """Writes jobs with times in the past."""

    def __init__(self, journal: Journal, outcomes: Outcomes, seed: int) -> None:
        self._journal, self._outcomes = journal, outcomes
        self._chance = random.Random(seed)
        self._number = 0

    async def add_job(self, began_ms: int, offer: Offer, hours: float, *, running: bool = False) -> None:
        chance, job_id = self._chance, self._next_id(began_ms)
        hostile = self._number == 1
        spec = from_mapping(
            {
                "script": "train.py",
                "name": f"{chance.choice(NAMES)}-{self._number}",
                "tags": [HOSTILE]
                if hostile
                else chance.sample(["night", "sweep", "baseline"], chance.randrange(3)),
                "resources": {"gpu": 1},
                "placement": {"interruptible": "yes", "expected_duration": f"{max(1, round(hours * 60))}m"},
            }
        )
        person = chance.choice(["ada", "grace", "root"])
        await self._journal.submit(SCOPE, job_id, JobSubmitted(spec=spec, person=person), at_ms=began_ms)
        price = offer.price_microusd_per_hour
        predicted = _prediction(hours * chance.uniform(0.85, 1.2), price)
        await self._append(job_id, began_ms, JobPlanned(prediction=predicted), *_training(1, offer))
        if running:
            return
        number, first_h = 1, hours * 0.4
        if offer.interruptible and chance.random() < 0.5:
            await self._interrupt(job_id, began_ms, offer, first_h)
            number, began_ms, hours = 2, began_ms + round(first_h * HOUR_MS), hours - first_h
            await self._append(job_id, began_ms, *_training(2, offer))
        ended_ms = began_ms + round(hours * HOUR_MS)
        ends = AttemptEnded(attempt=number, outcome="exited", exit_code=0)
        released = AttemptReleased(attempt=number, usage=_usage(began_ms, ended_ms, offer))
        view = await self._append(job_id, ended_ms, ends, released, JobCompleted())
        await self._outcomes.put(build_outcome(view, (), ReportState(), ()))

    async def _interrupt(self, job_id: str, began_ms: int, offer: Offer, hours: float) -> None:
        ended_ms = began_ms + round(hours * HOUR_MS)
        lost_s = self._chance.uniform(60, 1500)
        await self._append(
            job_id,
            ended_ms,
            AttemptLost(attempt=1, evidence="gone", failure=TAKEN_BACK),
            AttemptReleased(attempt=1, usage=_usage(began_ms, ended_ms, offer)),
            RecoveryStarted(
                attempt=1,
                failure=TAKEN_BACK,
                delay_s=0,
                work_lost_s=lost_s,
                work_lost_microusd=round(lost_s * offer.price_microusd_per_hour / 3600),
            ),
        )

    async def _append(self, job_id: str, at_ms: int, *events: Event) -> JobView:
        written = await self._journal.transact(SYSTEM, job_id, lambda _: events, at_ms=at_ms)
        return written.view

    def _next_id(self, at_ms: int) -> str:
        self._number += 1
        return str(UUID(int=at_ms << 80 | 0x7 << 76 | 0x2 << 62 | self._number))


def _training(number: int, offer: Offer) -> list[Event]:
    firm = 1_010_000 if offer.interruptible else None
    return [
        AttemptLaunching(
            attempt=number,
            name=f"m-{number}",
            offer=offer,
            ticket_sha256="",
            on_demand_microusd_per_hour=firm,
        ),
        AttemptLaunched(attempt=number, handle=Handle(name="m")),
        AttemptClaimed(attempt=number, claimant="c"),
        TrainingStarted(attempt=number),
    ]


def _usage(began_ms: int, ended_ms: int, offer: Offer) -> Usage | None:
    price = offer.price_microusd_per_hour
    cost = offer.billing.cost_microusd(price, (ended_ms - began_ms) // 1000)
    return Usage(started_at_ms=began_ms, ended_at_ms=ended_ms, cost_microusd=cost) if price else None


def _prediction(hours: float, price: int) -> Prediction:
    seconds, cost = hours * 3600, round(hours * price)
    return Prediction(
        wall_s=seconds,
        wall_low_s=seconds * 0.8,
        wall_high_s=seconds * 1.3,
        cost_microusd=cost,
        cost_low_microusd=round(cost * 0.8),
        cost_high_microusd=round(cost * 1.3),
        basis="history",
        confidence="high",
    )


async def _fill(state: Path, seed: int) -> None:
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = await open_database(f"sqlite:///{state / 'anygpu.db'}")
    try:
        filler, chance = Filler(SqlJournal(database), Outcomes(database), seed), random.Random(seed)
        now = datetime.now(UTC)
        for ago in range(DAYS, 0, -1):
            day = now - timedelta(days=ago)
            busy = 0.35 if day.weekday() >= 5 else 1.0
            for offer, hours in ((SPOT, 24.0), (RUNPOD, 14.0), (LAMBDA, 3.0), (OWN, 20.0)):
                began_ms = round(day.timestamp() * 1000) - chance.randrange(10 * HOUR_MS)
                await filler.add_job(began_ms, offer, hours * busy * chance.uniform(0.3, 1.2))
        await filler.add_job(round(now.timestamp() * 1000) - 2 * HOUR_MS, LAMBDA, 6.0, running=True)
    finally:
        await database.close()


def fill_with_costs(state: Path, seed: int = 1) -> None:
    """Store four jobs for each of the last 60 days, and one that runs."""
    asyncio.run(_fill(state, seed))
