"""The agent's protocol without HTTP: claims, the fence, late and repeated commits, ends."""

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from tests.unit.control.jobs_in_states import launching, lost, recovering

from anygpu.control.agents.service import AgentService
from anygpu.control.agents.tickets import AttemptKey, Tickets
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.verdict import failure_of
from anygpu.errors import (
    AlreadyClaimed,
    IncompleteUpload,
    InvalidReport,
    ReportGap,
    SecretMissing,
    Superseded,
    Unauthorized,
)
from anygpu.events.facts import Blame
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching, Event, JobSubmitted
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.snapshots import SnapshotLimits, Snapshots
from anygpu.store.blobs.uploads import Uploads
from anygpu.store.reports import ReportBatch
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.simulation.agents.environment import blob_key
from anygpu.testing.simulation.virtual_time import SimWake, VirtualClock, VirtualLoop

LAB = Scope(organisation="lab", project="p")
TICKETS = Tickets(b"secret")
KEY = AttemptKey("job", 1, "agent")


class NoSecrets:
    async def resolve(self, organisation: str, project: str, names: Mapping[str, str]) -> Mapping[str, str]:
        if names:
            raise SecretMissing(f"there is no secret {min(names)!r}")
        return {}


class Server:
    """A desk on stores in memory, with one job whose first attempt is launching."""

    def __init__(self) -> None:
        loop = VirtualLoop()
        clock = VirtualClock(loop)
        self.blobs = MemoryBlobs(clock.wall_ms)
        self.journal, self.evidence = MemoryJournal(now_s=loop.time), MemoryReports()
        checkpoints, uploads = Checkpoints(self.blobs), Uploads(self.blobs)
        self.desk = AgentService(
            self.journal,
            self.evidence,
            checkpoints,
            uploads,
            Snapshots(self.blobs, uploads, SnapshotLimits(max_bytes=2**20, max_files=100)),
            NoSecrets(),
            TICKETS,
            clock,
            SimWake(loop),
            ControlPolicy(),
        )

    async def submit(self, **spec: Any) -> "Server":
        submitted = JobSubmitted(spec=from_mapping({"script": "train.py", **spec}))
        await self.journal.submit(LAB, "job", submitted, at_ms=1)
        await self.write(launching())
        return self

    async def write(self, *events: Event) -> None:
        await self.journal.transact(SYSTEM, "job", lambda _: events, at_ms=2)

    async def claim(self, claimant: str = "agent", attempt: int = 1) -> dict[str, Any]:
        return await self.desk.claim(TICKETS.ticket("job", attempt), claimant, {"os": "linux"})

    async def upload(self, step: int) -> str:
        """Begin a checkpoint and send its bytes; the id to commit it with."""
        begun = await self.desk.begin_checkpoint(KEY, manifest(step))
        for upload in begun["uploads"]:
            await self.blobs.put(blob_key(upload["url"]), content(step))
        return str(begun["id"])

    async def steps(self) -> list[int]:
        return [checkpoint.step for checkpoint in (await self.journal.view(SYSTEM, "job")).checkpoints]


def content(step: int) -> bytes:
    return b"weights of step %d" % step


def manifest(step: int) -> dict[str, Any]:
    chunk = {"size": len(content(step)), "sha256": hashlib.sha256(content(step)).hexdigest()}
    return {"step": step, "at": 0.0, "files": [{"path": "last.pt", **chunk, "chunks": [chunk]}]}


async def test_the_first_claimant_owns_the_attempt_and_may_ask_again() -> None:
    server = await Server().submit()
    first = await server.claim()
    assert await server.claim() == first
    assert server.desk.authenticate(first["token"]) == KEY
    with pytest.raises(AlreadyClaimed):
        await server.claim("twin")


async def test_a_claimant_with_a_strange_name_is_refused() -> None:
    server = await Server().submit()
    with pytest.raises(InvalidReport):
        await server.claim("a.b")


async def test_an_attempt_that_is_over_cannot_be_claimed() -> None:
    server = await Server().submit()
    await server.write(lost())
    with pytest.raises(Superseded):
        await server.claim()


async def test_a_secret_that_is_not_there_ends_the_attempt_with_that_reason_and_is_not_tried_again() -> None:
    server = await Server().submit(secrets=["HF_TOKEN"])
    with pytest.raises(SecretMissing):
        await server.claim()
    job = await server.journal.view(SYSTEM, "job")
    failure = failure_of(job, job.attempts[0])
    assert failure is not None
    assert (failure.code, failure.blame) == ("failed_to_start", Blame.USER)
    assert "HF_TOKEN" in failure.message


async def test_a_job_whose_results_could_not_be_uploaded_has_not_succeeded() -> None:
    server = await Server().submit()
    await server.claim()
    end = {"outcome": "results_missing", "exit_code": 0, "message": "no time for model.pt", "last_seq": 0}
    assert await server.desk.end(KEY, end) == {"ok": True}
    job = await server.journal.view(SYSTEM, "job")
    failure = failure_of(job, job.attempts[0])
    assert failure is not None
    assert (failure.blame, failure.message) == (Blame.INFRASTRUCTURE, "no time for model.pt")


async def test_evidence_is_taken_from_an_attempt_that_is_over_but_commits_are_not() -> None:
    server = await Server().submit()
    await server.claim()
    upload_id = await server.upload(1)
    await server.write(lost())
    answer = await server.desk.report(KEY, ReportBatch(first=1, last=1, logs=[(1, b"late")]))
    assert answer["acked"] == 1
    for commit in (
        server.desk.begin_checkpoint(KEY, manifest(2)),
        server.desk.commit_checkpoint(KEY, upload_id),
        server.desk.end(KEY, {"outcome": "exited", "exit_code": 0, "last_seq": 1}),
    ):
        with pytest.raises(Superseded):
            await commit
    assert await server.steps() == []


async def test_a_token_of_an_agent_that_never_claimed_commits_nothing() -> None:
    server = await Server().submit()
    await server.claim()
    with pytest.raises(Unauthorized):
        await server.desk.begin_checkpoint(AttemptKey("job", 1, "twin"), manifest(1))


async def test_a_damaged_upload_is_not_published() -> None:
    server = await Server().submit()
    await server.claim()
    begun = await server.desk.begin_checkpoint(KEY, manifest(1))
    await server.blobs.put(blob_key(begun["uploads"][0]["url"]), b"x" * len(content(1)))
    with pytest.raises(IncompleteUpload) as refused:
        await server.desk.commit_checkpoint(KEY, begun["id"])
    assert [upload["sha256"] for upload in refused.value.details["uploads"]] == [
        begun["uploads"][0]["sha256"]
    ]
    assert await server.steps() == []


async def test_a_commit_that_comes_again_late_does_not_bring_an_old_checkpoint_back() -> None:
    server = await Server().submit(checkpoint={"keep": 1})
    await server.claim()
    ids = [await server.upload(step) for step in (1, 2, 3)]
    for upload_id in ids:
        await server.desk.commit_checkpoint(KEY, upload_id)
    assert await server.desk.commit_checkpoint(KEY, ids[0]) == {"ok": True}
    assert await server.steps() == [3]


async def test_a_repeated_commit_is_answered_without_another_verification() -> None:
    """The agent may not have received the answer. To verify a large checkpoint takes minutes."""
    server = await Server().submit()
    await server.claim()
    upload_id = await server.upload(1)
    artifact = await server.desk.begin_artifact(KEY, {"name": "a", "file": manifest(1)["files"][0]})
    await server.desk.commit_checkpoint(KEY, upload_id)
    await server.desk.commit_artifact(KEY, artifact["id"])
    reads: list[str] = []
    stream = server.blobs.stream

    def counted(key: str) -> AsyncIterator[bytes]:
        reads.append(key)
        return stream(key)

    server.blobs.stream = counted  # type: ignore[method-assign]
    assert await server.desk.commit_checkpoint(KEY, upload_id) == {"ok": True}
    assert await server.desk.commit_artifact(KEY, artifact["id"]) == {"ok": True}
    assert reads == []
    await server.write(lost())
    with pytest.raises(Superseded):
        await server.desk.commit_checkpoint(KEY, upload_id)
    with pytest.raises(Superseded):
        await server.desk.commit_artifact(KEY, artifact["id"])


async def test_the_end_waits_for_the_frames_before_it() -> None:
    server = await Server().submit()
    await server.claim()
    ending = {"outcome": "exited", "exit_code": 0, "last_seq": 2}
    with pytest.raises(ReportGap) as gap:
        await server.desk.end(KEY, ending)
    assert gap.value.details["expected"] == 1
    await server.desk.report(KEY, ReportBatch(first=1, last=2, logs=[(1, b"a"), (2, b"bc")]))
    assert await server.desk.end(KEY, ending) == await server.desk.end(KEY, ending) == {"ok": True}
    attempt = (await server.journal.view(SYSTEM, "job")).attempts[0]
    assert (attempt.outcome, attempt.marks.log_bytes) == ("exited", 3)


async def test_a_delivery_for_the_dead_commits_nothing() -> None:
    server = await Server().submit()
    await server.claim()
    await server.desk.end(KEY, {"outcome": "agent_lost", "last_seq": 0})
    assert not (await server.journal.view(SYSTEM, "job")).attempts[0].is_over


async def test_training_starts_when_the_agent_says_so_and_only_once() -> None:
    server = await Server().submit()
    await server.claim()
    batch = ReportBatch(first=1, last=1, phases=[(1, "training")])
    await server.desk.report(KEY, batch)
    await server.desk.report(KEY, batch)
    events = await server.journal.events(LAB, after=0, limit=99)
    assert [type(recorded.event).__name__ for recorded in events].count("TrainingStarted") == 1


async def test_an_agent_is_told_the_lease_of_the_place_it_runs_at() -> None:
    server = await Server().submit()
    assert (await server.claim())["lease_s"] == ControlPolicy().lease_s
    rented = Server()
    await rented.journal.submit(LAB, "job", JobSubmitted(spec=from_mapping({"script": "t.py"})), at_ms=1)
    offer = Offer(backend="cloud", lease_s=900)
    await rented.write(AttemptLaunching(attempt=1, name="a", offer=offer, ticket_sha256=""))
    claimed = await rented.claim()
    heartbeat, orders = await rented.desk.heartbeat(KEY), await rented.desk.orders(KEY)
    assert (claimed["lease_s"], heartbeat["lease_s"], orders["lease_s"]) == (900, 900, 900)


async def test_a_report_of_an_attempt_newer_than_the_remembered_view_is_answered_with_its_own_lease() -> None:
    server = await Server().submit()
    await server.desk.heartbeat(KEY)  # remembers a view with one attempt
    offer = Offer(backend="cloud", lease_s=900)
    await server.write(lost(), recovering())
    await server.write(AttemptLaunching(attempt=2, name="anygpu-job-2", offer=offer, ticket_sha256=""))
    assert (await server.desk.heartbeat(AttemptKey("job", 2, "agent")))["lease_s"] == 900


async def test_a_report_of_an_attempt_the_journal_does_not_know_is_evidence_all_the_same() -> None:
    server = await Server().submit()
    answer = await server.desk.heartbeat(AttemptKey("job", 7, "agent"))
    assert answer["lease_s"] == ControlPolicy().lease_s
