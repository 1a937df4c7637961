"""The server's side of the agent protocol, without HTTP: claims, reports, checkpoints and end reports.

Reports are accepted from any attempt, however late. A commit (checkpoint, artifact or end report) is accepted
only from the agent that owns the live attempt: the owner is checked in the journal transaction that writes the
commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from anygpu.backends.contract import node_name
from anygpu.control.agents import gang
from anygpu.control.agents.addresses import order_for_attempt
from anygpu.control.agents.assignment import build_assignment, in_place_directory
from anygpu.control.agents.ends import REPORTS_ONLY, parse_end
from anygpu.control.agents.orders import orders_for, version_of
from anygpu.control.agents.tickets import AttemptKey, Tickets
from anygpu.control.clock import Clock, WakeSignal
from anygpu.control.policy import ControlPolicy
from anygpu.control.resume import FirstSteps, attempts_without_checkpoint, resume_events
from anygpu.errors import InvalidReport, ReportGap, SecretMissing, Superseded, Unauthorized
from anygpu.events.facts import Marks
from anygpu.events.types import (
    ArtifactSaved,
    AttemptEnded,
    CheckpointSaved,
    Event,
    TrainingStarted,
)
from anygpu.events.view import AttemptView, JobView
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.keys import UploadOwner
from anygpu.store.blobs.snapshots import Snapshots
from anygpu.store.blobs.uploads import Uploads
from anygpu.store.journal import Decide, Journal, require_intact
from anygpu.store.reports import ReportBatch, Reports, ReportState
from anygpu.store.scope import SYSTEM

ORDERS_AGE_S = 1.0


class SecretReader(Protocol):
    """Interface to read the secrets that a job refers to."""

    async def resolve(
        self, organisation: str, project: str, names: Mapping[str, str]
    ) -> Mapping[str, str]: ...


class AgentService:
    """Handles requests of agents. The token of the attempt identifies the agent."""

    def __init__(
        self,
        journal: Journal,
        reports: Reports,
        checkpoints: Checkpoints,
        uploads: Uploads,
        snapshots: Snapshots,
        secrets: SecretReader,
        tickets: Tickets,
        clock: Clock,
        wake: WakeSignal,
        policy: ControlPolicy,
        agent_urls: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """Create the service.

        `agent_urls` returns the URLs of all live servers for agents; empty if there is only one server.
        """
        self._agent_urls = agent_urls
        self._journal = journal
        self._reports = reports
        self._checkpoints = checkpoints
        self._uploads = uploads
        self._snapshots = snapshots
        self._secrets = secrets
        self._tickets = tickets
        self._clock = clock
        self._wake = wake
        self._policy = policy
        self._recent: dict[str, tuple[float, JobView]] = {}

    def authenticate(self, token: str) -> AttemptKey:
        return self._tickets.read_token(token)

    # -- claiming ---------------------------------------------------------------------------------------------

    async def claim(
        self, ticket: str, claimant: str, host: Mapping[str, Any], node: int = 0
    ) -> dict[str, Any]:
        """Give the attempt to the first agent that asks for it, and return what the agent has to run.

        If the attempt has several nodes, this holds for each node. If the same agent repeats its claim, it gets the
        same answer.
        """
        if not claimant.isalnum() or len(claimant) > 128:
            raise InvalidReport(
                "the field 'claimant' of the request is not valid; send 1 to 128 letters and digits, and nothing "
                "else"
            )
        job_id, number = self._tickets.read_ticket(ticket)
        key = AttemptKey(job_id, number, claimant, node)

        def decide(view: JobView) -> list[Event]:
            return gang.claim_events(_require_live(view, number), key, _host_facts(host))

        view = await self._commit(job_id, decide)
        await self._record_heartbeat(key)
        try:
            return await self._build_claim_answer(view, view.attempts[number - 1], key)
        except SecretMissing as missing:
            await self._record_failed_start(key, str(missing))
            raise

    async def _record_failed_start(self, key: AttemptKey, why: str) -> None:
        """Record that the attempt could not start because of `why`.

        Without this record the attempt would count as a lost machine and be retried.
        """
        row = await self._reports.state(key.job_id, key.attempt)

        def decide(view: JobView) -> list[Event]:
            _require_owner(view, key)
            ended = AttemptEnded(attempt=key.attempt, outcome="failed_to_start", message=why, marks=row.marks)
            return [ended]

        await self._commit(key.job_id, decide)

    async def _build_claim_answer(
        self, view: JobView, attempt: AttemptView, key: AttemptKey
    ) -> dict[str, Any]:
        work = build_assignment(
            view,
            attempt,
            self._policy,
            secrets=await self._secrets.resolve(view.organisation, view.project, view.spec.secrets),
            archive=await self._archive(view, attempt),
            data=await self._data(view),
            resume=await self._resume(attempt),
            node=key.node,
        )
        return {
            "protocol": 1,
            "token": self._tickets.token(view.id, attempt.number, key.claimant, key.node),
            "job_id": view.id,
            "attempt": attempt.number,
            "name": node_name(attempt.name, key.node),
            "lease_s": self._policy.lease_for(attempt.offer),
            "heartbeat_s": self._policy.heartbeat_s,
            "report_every_s": self._policy.report_every_s,
            "telemetry_every_s": self._policy.telemetry_every_s,
            **self._server_urls(view.id, attempt.number),
            "work": work,
        }

    def _server_urls(self, job_id: str, attempt: int) -> dict[str, Any]:
        """Return the addresses that the agent may use from now on, as a part of an answer."""
        urls = self._agent_urls()
        return {"urls": order_for_attempt(urls, job_id, attempt)} if urls else {}

    async def _archive(self, view: JobView, attempt: AttemptView) -> dict[str, Any] | None:
        workdir = view.spec.workdir
        if workdir is None or in_place_directory(view, attempt, self._policy):
            return None
        sha256 = workdir.archive
        if sha256 is None and workdir.manifest is not None:
            now_ms = self._clock.wall_ms()
            sha256 = await self._snapshots.archive(view.organisation, workdir.manifest, now_ms=now_ms)
        if sha256 is None:
            return None
        return {"url": await self._uploads.url(view.organisation, sha256), "sha256": sha256, "size": None}

    async def _data(self, view: JobView) -> list[dict[str, Any]]:
        parts = view.spec.dataset.parts if view.spec.dataset else ()
        return [{"url": await self._uploads.url(view.organisation, part), "sha256": part} for part in parts]

    async def _resume(self, attempt: AttemptView) -> dict[str, Any] | None:
        if attempt.resume is None:
            return None
        return asdict(await self._checkpoints.download_plan(attempt.resume.manifest))

    # -- reports ----------------------------------------------------------------------------------------------

    async def report(self, key: AttemptKey, batch: ReportBatch) -> dict[str, Any]:
        """Store the new frames (numbered entries) of a report durably, even if the attempt is already over."""
        kept = replace(batch, points=(), progress=None) if key.node else batch  # metrics come from node 0
        row = await self._reports.ingest(key.job_id, key.report_number, kept, at_ms=self._clock.wall_ms())
        if not key.node:
            if any(phase == "training" for _, phase in batch.phases):
                await self._record_training(key)
            await self._record_resume(key, row)
        return await self._report_answer(key, row)

    async def heartbeat(self, key: AttemptKey) -> dict[str, Any]:
        return await self._report_answer(key, await self._record_heartbeat(key))

    async def ready(
        self, key: AttemptKey, body: Mapping[str, Any], *, is_new_request: bool = True
    ) -> dict[str, Any]:
        """Record that a node is prepared. Return whether all nodes are, so that the processes may start.

        `is_new_request`: see `orders`.
        """

        def decide(view: JobView, marks: Marks = gang.NO_MARKS) -> list[Event]:
            return gang.ready_events(_require_owner(view, key), key, body, marks)

        if is_new_request:
            await self._record_heartbeat(key)
        view = await self._journal.view(SYSTEM, key.job_id)
        require_intact(view)
        if decide(view):
            first = await self._reports.state(key.job_id, key.attempt)
            view = await self._commit(key.job_id, lambda fresh: decide(fresh, first.marks))
        orders = orders_for(view, key)
        fields = gang.start_fields(_require_owner(view, key))
        return {**fields, "start": fields["start"] and not orders, "orders": orders}

    async def leave(self, key: AttemptKey, body: Mapping[str, Any]) -> dict[str, Any]:
        """Record that a node will be taken away soon, so that all nodes save and stop."""

        def decide(view: JobView) -> list[Event]:
            return gang.leave_events(_require_owner(view, key), key, body)

        await self._commit(key.job_id, decide)
        return {"ok": True}

    async def orders(self, key: AttemptKey, *, is_new_request: bool = True) -> dict[str, Any]:
        """Return the current orders (`stop` or `cancel`) for the agent of the attempt.

        The answer has a version number that changes when the orders change. `is_new_request` is false if the server
        checks again during a long poll: that shows nothing about the agent, so it is no heartbeat.
        """
        if is_new_request:
            await self._record_heartbeat(key)
        view = await self._journal.view(SYSTEM, key.job_id)
        self._remember(view)
        orders = orders_for(view, key)
        return {"version": version_of(orders), "orders": orders, "lease_s": self._lease_s(view, key)}

    async def _record_heartbeat(self, key: AttemptKey) -> ReportState:
        at_ms = self._clock.wall_ms()
        return await self._reports.record_heartbeat(key.job_id, key.report_number, at_ms=at_ms)

    async def _record_training(self, key: AttemptKey) -> None:
        def decide(view: JobView) -> list[Event]:
            live = view.live_attempt
            fresh = live is not None and live.number == key.attempt and live.training_at_ms is None
            return [TrainingStarted(attempt=key.attempt)] if fresh else []

        await self._commit(key.job_id, decide)

    async def _record_resume(self, key: AttemptKey, row: ReportState) -> None:
        """Record whether the attempt resumed from its checkpoint, as soon as its reports show it.

        The reports are stored before. If the server crashes in between, this is done again with the next report.
        """
        view = await self._recent_view(key)
        attempt = view.attempts[key.attempt - 1] if key.attempt <= len(view.attempts) else None
        first = FirstSteps.read(row.progress)
        if attempt is None or attempt.resume is None or attempt.resumed is not None or first.shown is None:
            return
        new_training = await self._first_steps_of_new_training(view)
        if resume_events(view, key.attempt, first, new_training):
            await self._commit(
                key.job_id, lambda fresh: [*resume_events(fresh, key.attempt, first, new_training)]
            )

    async def _first_steps_of_new_training(self, view: JobView) -> FirstSteps:
        """Return the first steps that this job reported in an attempt without a checkpoint."""
        for number in attempts_without_checkpoint(view):
            first = FirstSteps.read((await self._reports.state(view.id, number)).progress)
            if first.shown is not None:
                return first
        return FirstSteps()

    async def _report_answer(self, key: AttemptKey, row: ReportState) -> dict[str, Any]:
        view = await self._recent_view(key)
        return {
            "acked": row.acked,
            "lease_s": self._lease_s(view, key),
            "orders": orders_for(view, key),
            **self._server_urls(key.job_id, key.attempt),
        }

    def _lease_s(self, view: JobView, key: AttemptKey) -> float:
        known = key.attempt <= len(view.attempts)
        return self._policy.lease_for(view.attempts[key.attempt - 1].offer) if known else self._policy.lease_s

    async def _recent_view(self, key: AttemptKey) -> JobView:
        """Return the state of the job, at most one second old.

        Answers to reports need no newer state, because the agent receives new orders at once by long polling.
        """
        at, known = self._recent.get(key.job_id, (0.0, None))
        fresh = self._clock.monotonic() - at < ORDERS_AGE_S
        if known is not None and fresh and key.attempt <= len(known.attempts):
            return known
        view = await self._journal.view(SYSTEM, key.job_id)
        self._remember(view)
        return view

    def _remember(self, view: JobView) -> None:
        now = self._clock.monotonic()
        if len(self._recent) > 10_000:
            self._recent = {k: v for k, v in self._recent.items() if now - v[0] < ORDERS_AGE_S}
        self._recent[view.id] = (now, view)

    # -- commits ----------------------------------------------------------------------------------------------

    async def begin_checkpoint(self, key: AttemptKey, body: Mapping[str, Any]) -> dict[str, Any]:
        return asdict(await self._checkpoints.begin(await self._get_owner(key), body))

    async def commit_checkpoint(self, key: AttemptKey, upload_id: str) -> dict[str, Any]:
        """Publish a checkpoint.

        The store verifies every chunk (part of a file). Then the checkpoint is recorded, if the agent still owns the
        attempt. A repeated request is then answered at once, because to verify a large checkpoint takes minutes.
        """
        owner, view = await self._get_owned(key)
        if view.has_published(upload_id):
            return {"ok": True}
        verified = await self._checkpoints.verify(owner, upload_id)
        saved = verified.ref(self._clock.wall_ms())

        def decide(view: JobView) -> list[Event]:
            _require_owner(view, key)
            if view.has_published(upload_id):
                return []
            return [CheckpointSaved(attempt=key.attempt, checkpoint=saved)]

        await self._commit(key.job_id, decide)
        return {"ok": True}

    async def begin_artifact(self, key: AttemptKey, body: Mapping[str, Any]) -> dict[str, Any]:
        return asdict(await self._checkpoints.begin_artifact(await self._get_owner(key), body))

    async def commit_artifact(self, key: AttemptKey, upload_id: str) -> dict[str, Any]:
        owner, view = await self._get_owned(key)
        if any(known.key == owner.manifest_key(upload_id) for known in view.artifacts):
            return {"ok": True}
        artifact = await self._checkpoints.verify_artifact(owner, upload_id)

        def decide(view: JobView) -> list[Event]:
            _require_owner(view, key)
            known = artifact in view.artifacts
            return [] if known else [ArtifactSaved(attempt=key.attempt, artifact=artifact)]

        await self._commit(key.job_id, decide)
        return {"ok": True}

    async def end(self, key: AttemptKey, body: Mapping[str, Any]) -> dict[str, Any]:
        """Record the end report of an attempt.

        Refused while earlier reports are missing, so that the recorded lengths of logs and metrics are final.
        """
        ending = parse_end(body)
        row = await self._reports.state(key.job_id, key.report_number)
        if ending.last_seq > row.acked:
            raise ReportGap(
                "the server has not received all reports before the end report; send them again from the number "
                "in `expected`",
                expected=row.acked + 1,
            )

        def decide(view: JobView) -> list[Event]:
            if ending.outcome == REPORTS_ONLY or _has_ended(view, key):
                return []
            attempt = _require_owner(view, key)
            if attempt.nodes:
                return gang.end_events(attempt, ending.to_node_event(key), first.marks)
            return [ending.to_event(key.attempt, row)]

        first = await self._reports.state(key.job_id, key.attempt) if key.node else row
        if not key.node:
            await self._record_resume(key, row)
        view = await self._commit(key.job_id, decide)
        return {"ok": True, **({"wait": True} if _is_waiting_for_nodes(view, key) else {})}

    async def _get_owner(self, key: AttemptKey) -> UploadOwner:
        return (await self._get_owned(key))[0]

    async def _get_owned(self, key: AttemptKey) -> tuple[UploadOwner, JobView]:
        """Return under whom this agent publishes files, and the job. Raise an error if it does not own the attempt."""
        view = await self._journal.view(SYSTEM, key.job_id)
        require_intact(view)
        _require_owner(view, key)
        if key.node:
            raise InvalidReport(f"node {key.node} may not publish files; node 0 publishes them")
        return UploadOwner(organisation=view.organisation, job_id=view.id, attempt=key.attempt), view

    async def _commit(self, job_id: str, decide: Decide) -> JobView:
        at_ms = self._clock.wall_ms()
        written = await self._journal.transact(SYSTEM, job_id, decide, at_ms=at_ms)
        self._remember(written.view)
        if written.recorded:
            self._wake.set(job_id)
        return written.view


def _require_live(view: JobView, number: int) -> AttemptView:
    live = view.live_attempt
    if live is None or live.number != number:
        raise Superseded(
            f"attempt {number} of job {view.id} has ended; stop its agent, the server accepts nothing from it"
        )
    return live


def _require_owner(view: JobView, key: AttemptKey) -> AttemptView:
    attempt = _require_live(view, key.attempt)
    if attempt.claimant_of(key.node) != key.claimant:
        raise Unauthorized("another agent has claimed the attempt of this token; stop this agent")
    return attempt


def _has_ended(view: JobView, key: AttemptKey) -> bool:
    """Return whether this agent has already sent its end report. A repeated one gets the same answer."""
    if not 1 <= key.attempt <= len(view.attempts):
        return False
    attempt = view.attempts[key.attempt - 1]
    if attempt.claimant_of(key.node) != key.claimant or attempt.lost is not None:
        return False
    return attempt.nodes[key.node].has_ended if attempt.nodes else attempt.is_over


def _is_waiting_for_nodes(view: JobView, key: AttemptKey) -> bool:
    """Return whether the agent must stay until all nodes have ended, so that its machine does not count as lost.

    An agent whose end is not recorded must not stay: the attempt would look healthy, and would never end.
    """
    live = view.live_attempt
    return live is not None and live.number == key.attempt and bool(live.nodes) and _has_ended(view, key)


def _host_facts(host: Mapping[str, Any]) -> dict[str, str]:
    """Return the agent's description of its machine, for display. Keys and values are limited in size."""
    return {str(name)[:50]: str(value)[:200] for name, value in [*host.items()][:20]}
