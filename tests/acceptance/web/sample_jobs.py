"""Fill the database of a server that is not started yet with jobs in every state, for pages with much to show.

Start the server with `ANYGPU_SERVER__CONTROL=false`, so that nothing acts on these jobs.
"""

import asyncio
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.filling import open_stores

from anygpu.events.facts import Blame, CheckpointRef, Failure, Prediction, Usage
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    CancelRequested,
    CheckpointSaved,
    Event,
    HoldStarted,
    JobCancelled,
    JobCompleted,
    JobFailed,
    JobPlanned,
    JobSubmitted,
    JobWaited,
    RecoveryStarted,
    StopRequested,
    TrainingStarted,
)
from anygpu.spec.load import from_mapping
from anygpu.store.journal import Decide, Journal
from anygpu.store.reports import MetricPoint, ReportBatch, Reports
from anygpu.store.scope import Scope

TOGETHER = 200  # jobs that are stored at the same time
SCOPE = Scope(organisation="local", project="default", person="root")
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
LOST = Failure(code="preempted", message="aws took the machine back", blame=Blame.PREEMPTION)

CLOUD = Offer(
    backend="lambda", name="gpu_1x_a10", region="us-east-1", gpu_kind="A10", gpu_count=1,
    price_microusd_per_hour=750_000,
)  # fmt: skip
SPOT = Offer(
    backend="aws", name="g6.12xlarge", region="eu-west-1", gpu_kind="L4", gpu_count=4, interruptible=True,
    price_microusd_per_hour=1_800_000,
)  # fmt: skip
OWN = Offer(backend="lab", name="rig-1", gpu_kind="RTX 4090", gpu_count=1, own=True)
HERE = Offer(backend="local", name="here", cpus=8)


@dataclass
class SampleJob:
    """One job of the list: what was submitted, what happened, and what it reported."""

    name: str
    hours_ago: float
    events: list[Event]
    spec: dict[str, Any]
    person: str = "root"
    metric: str = ""
    values: tuple[float, ...] = ()
    progress: dict[str, Any] | None = None


def curve(end: float, count: int = 60, *, start: float = 0.0) -> tuple[float, ...]:
    """Return values that approach `end` with a little noise."""
    span = end - start
    return tuple(
        start + span * (1 - math.exp(-4 * n / count)) + 0.03 * span * math.sin(7.3 * n) / (1 + n / 12)
        for n in range(count)
    )


def prediction(hours: float, dollars: float) -> JobPlanned:
    wall_s, cost = hours * 3600, round(dollars * 1_000_000)
    told = Prediction(
        wall_s=wall_s,
        wall_low_s=wall_s * 0.95,
        wall_high_s=wall_s * 1.1,
        cost_microusd=cost,
        cost_low_microusd=round(cost * 0.9),
        cost_high_microusd=round(cost * 1.2),
        basis="history",
        confidence="high",
    )
    return JobPlanned(plan="", prediction=told)


def training(attempt: int, offer: Offer, resume_step: int | None = None) -> list[Event]:
    name = f"anygpu-sample-{attempt}"
    resume = None if resume_step is None else checkpoint(attempt - 1, resume_step).checkpoint
    return [
        AttemptLaunching(attempt=attempt, name=name, offer=offer, ticket_sha256="0" * 64, resume=resume),
        AttemptLaunched(attempt=attempt, handle=Handle(name=name, native={})),
        AttemptClaimed(attempt=attempt, claimant="c"),
        TrainingStarted(attempt=attempt),
    ]


def checkpoint(attempt: int, step: int) -> CheckpointSaved:
    ref = CheckpointRef(
        id=f"c{step}",
        attempt=attempt,
        step=step,
        manifest=f"m/{step}",
        size=1 << 30,
        saved_at_ms=1,
        unit="step",
    )
    return CheckpointSaved(attempt=attempt, checkpoint=ref)


def interrupted(attempt: int, dollars: float) -> list[Event]:
    usage = Usage(started_at_ms=1, ended_at_ms=2, cost_microusd=round(dollars * 1_000_000))
    return [
        AttemptLost(attempt=attempt, evidence="gone", failure=LOST),
        AttemptReleased(attempt=attempt, usage=usage),
        RecoveryStarted(attempt=attempt, failure=LOST, delay_s=1, work_lost_s=41, work_lost_microusd=9_000),
    ]


def ended(attempt: int, dollars: float, *, exit_code: int = 0) -> list[Event]:
    usage = Usage(started_at_ms=1, ended_at_ms=2, cost_microusd=round(dollars * 1_000_000))
    return [
        AttemptEnded(attempt=attempt, outcome="exited", exit_code=exit_code),
        AttemptReleased(attempt=attempt, usage=usage if dollars else None),
    ]


def steps(step: int, total: int) -> dict[str, Any]:
    return {"step": step, "steps": total}


def sample_jobs() -> list[SampleJob]:
    """Return jobs in every state, oldest first."""
    out_of_memory = Failure(code="user_error", message="CUDA out of memory at step 312", blame=Blame.USER)
    budget = {"limits": {"max_cost": 12}}
    return [
        SampleJob(
            "churn-lgbm", 96, [*training(1, HERE), *ended(1, 0), JobCompleted()], {"tags": ["tables"]},
            person="ci", metric="valid/auc", values=curve(0.887), progress=steps(800, 800),
        ),
        SampleJob(
            "deeplab-roads", 74, [*training(1, CLOUD), CancelRequested(), *ended(1, 1.12), JobCancelled()],
            {"limits": {"max_cost": 8}}, metric="val/mIoU", values=curve(0.518, 12),
            progress={"epoch": 9, "epochs": 48},
        ),
        SampleJob(
            "effnetv2-s-defects", 26,
            [*training(1, OWN), *ended(1, 0, exit_code=1), JobFailed(failure=out_of_memory)],
            {"tags": ["defects"]}, person="ci", metric="loss", values=curve(3.4, 8, start=6.9),
            progress=steps(312, 8000),
        ),
        SampleJob(
            "resnet50-lr-0.4", 25,
            [*training(1, SPOT), checkpoint(1, 480), *interrupted(1, 2.0), *training(2, CLOUD, 480),
             *ended(2, 2.48), JobCompleted()],
            {"tags": ["in1k", "sweep"], **budget}, metric="val/top1", values=curve(0.733), progress=steps(1000, 1000),
        ),
        SampleJob(
            "vit-s-dino", 11, [prediction(49, 0), *training(1, OWN)], {"tags": ["ssl"]}, person="teammate",
            metric="loss", values=curve(4.2, start=9.0), progress={"epoch": 69, "epochs": 300},
        ),
        SampleJob(
            "resnet50-in1k-160", 8,
            [prediction(9.8, 8.1), *training(1, SPOT), checkpoint(1, 378), *interrupted(1, 2.1),
             *training(2, SPOT, 378), checkpoint(2, 501), *interrupted(2, 1.6), *training(3, CLOUD, 501)],
            {"tags": ["in1k", "baseline"], **budget}, metric="val/top1", values=curve(0.738),
            progress=steps(827, 1000),
        ),
        SampleJob(
            "siglip-b-retrieval", 7.9,
            [prediction(8.8, 12), *training(1, CLOUD), checkpoint(1, 36_400),
             StopRequested(attempt=1, reason="handover")],
            {"tags": ["retrieval"], "limits": {"max_cost": 15}}, person="teammate", metric="val/recall@1",
            values=curve(0.648), progress=steps(36_400, 40_000),
        ),
        SampleJob(
            "rtdetr-l-aerial", 5,
            [prediction(9, 20), *training(1, SPOT), checkpoint(1, 310), *interrupted(1, 3.0), *training(2, SPOT, 310),
             checkpoint(2, 570), *interrupted(2, 3.02)],
            {"tags": ["aerial", "paper"], "limits": {"max_cost": 25}}, metric="metrics/mAP50-95",
            values=curve(0.438), progress=steps(570, 1000),
        ),
        SampleJob(
            "clip-probe-eval", 0.93,
            [*training(1, CLOUD), AttemptEnded(attempt=1, outcome="exited", exit_code=1),
             HoldStarted(attempt=1, until_ms=round(time.time() * 1000) + HOUR_MS)],
            {"tags": ["ci"], "limits": {"max_cost": 4}}, person="ci", metric="loss", values=curve(2.87, 20, start=4),
            progress=steps(310, 2500),
        ),
        SampleJob(
            "rfdetr-b-pallets", 0.6, [JobWaited(reason="lab has no machine with 4 free GPUs")],
            {"tags": ["pallets"], "resources": {"gpu": "RTX4090:4"}},
        ),
        SampleJob(
            "nanogpt-124m", 0.5, [prediction(6.7, 14), JobWaited(reason="spot is cheaper until 17:05")],
            {"tags": ["deadline"], "limits": {"max_cost": 18, "deadline": "14h"}},
        ),
        SampleJob(
            "defects-xgb", 0.1, [prediction(0.16, 0), *training(1, HERE)], {"tags": ["tables"]}, person="ci",
            metric="valid/auc", values=curve(0.941), progress=steps(640, 1000),
        ),
        SampleJob(
            "unet-cells-512", 0.02, [prediction(1.33, 1), *training(1, SPOT)[:2]],
            {"tags": ["cells"], "limits": {"max_cost": 3}},
        ),
    ]  # fmt: skip


def _always(*events: Event) -> Decide:
    return lambda _: events


async def store_job(journal: Journal, reports: Reports, number: int, job: SampleJob, now_ms: int) -> None:
    at_ms = round(now_ms - job.hours_ago * HOUR_MS)
    job_id = str(UUID(int=at_ms << 80 | 0x7 << 76 | 0x2 << 62 | (number * 0x9E3779B1 & 0xFFFFFFFF)))
    spec = from_mapping({"script": "train.py", "name": job.name, **job.spec})
    scope = Scope(organisation=SCOPE.organisation, project=SCOPE.project, person=job.person)
    await journal.submit(scope, job_id, JobSubmitted(spec=spec, person=job.person), at_ms=at_ms)
    last_ms = min(now_ms, at_ms + 45 * MINUTE_MS) if job.hours_ago > 20 else at_ms + 1000
    for event in job.events[:-1]:
        await journal.transact(SCOPE, job_id, _always(event), at_ms=at_ms)
    await journal.transact(SCOPE, job_id, _always(*job.events[-1:]), at_ms=last_ms)
    attempts = [event.attempt for event in job.events if isinstance(event, AttemptLaunching)]
    if attempts and (job.values or job.progress):
        points = [MetricPoint(job.metric, n, at_ms / 1000 + n, value) for n, value in enumerate(job.values)]
        batch = ReportBatch(first=1, last=1, points=[(1, points)], progress=job.progress)
        await reports.ingest(job_id, attempts[-1], batch, at_ms=at_ms)


async def _fill(state: Path, jobs: list[SampleJob]) -> None:
    now_ms = round(time.time() * 1000)
    async with open_stores(state) as (journal, reports):
        # The journal commits what arrives together at once.
        for start in range(0, len(jobs), TOGETHER):
            numbered = enumerate(jobs[start : start + TOGETHER], start + 1)
            await asyncio.gather(*(store_job(journal, reports, n, job, now_ms) for n, job in numbered))


def fill_with_sample_jobs(state: Path) -> None:
    """Store one job for every state."""
    asyncio.run(_fill(state, sample_jobs()))


def fill_with_ended_jobs(state: Path, count: int) -> None:
    """Store many jobs that were cancelled before they started."""
    jobs = [
        SampleJob(
            f"run-{number:05d}",
            1 + (count - number) / 60,
            [CancelRequested(), JobCancelled()],
            {"tags": ["old"]},
        )
        for number in range(count)
    ]
    asyncio.run(_fill(state, jobs))
