"""Attempts on several nodes: claims, the common start, the end of a node and what it means for the others."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.control.agents.test_service import LAB, TICKETS, Server, manifest
from tests.unit.control.jobs_in_states import launching

from anygpu.backends.contract import MachineState, Observation
from anygpu.control.agents.gang import find_cause
from anygpu.control.agents.tickets import AttemptKey
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.decide import events_due
from anygpu.control.reconcile.observation import AttemptObservation, Probe
from anygpu.control.reconcile.verdict import Failed, Retry, failure_of, verdict
from anygpu.errors import AlreadyClaimed, InvalidReport, Superseded
from anygpu.events.facts import Blame, Failure, MemoryUse
from anygpu.events.types import AttemptLost, CancelRequested, JobSubmitted
from anygpu.events.view import JobView, NodeView
from anygpu.spec.load import from_mapping
from anygpu.store.reports import MetricPoint, ReportBatch, report_number
from anygpu.store.scope import SYSTEM

READY = {"address": "10.0.0.1", "port": 4000}
DONE = {"outcome": "exited", "exit_code": 0}
STOPPED_BY_PEER = {"outcome": "stopped", "message": "peer"}
STOP = [{"kind": "stop", "reason": "peer"}]


def key(node: int) -> AttemptKey:
    return AttemptKey("job", 1, f"agent{node}", node)


class Gang(Server):
    """A server with an attempt on several nodes."""

    async def submit_nodes(self, nodes: int) -> "Gang":
        spec = from_mapping({"script": "train.py", "resources": {"nodes": nodes}})
        await self.journal.submit(LAB, "job", JobSubmitted(spec=spec), at_ms=1)
        await self.write(replace(launching(), nodes=nodes))
        return self

    async def claim_node(self, node: int) -> dict[str, Any]:
        return await self.desk.claim(TICKETS.ticket("job", 1), f"agent{node}", {"hostname": "h"}, node)

    async def start(self, nodes: int = 2) -> "Gang":
        await self.submit_nodes(nodes)
        for node in range(nodes):
            await self.claim_node(node)
        for node in range(nodes):
            await self.desk.ready(key(node), READY)
        return self

    async def view(self) -> JobView:
        return await self.journal.view(SYSTEM, "job")

    async def orders(self, node: int) -> Any:
        return (await self.desk.orders(key(node)))["orders"]


async def test_each_node_has_its_own_claimant_token_and_name() -> None:
    server = await Gang().submit_nodes(2)
    first, second = await server.claim_node(0), await server.claim_node(1)
    assert await server.claim_node(1) == second
    assert [server.desk.authenticate(each["token"]) for each in (first, second)] == [key(0), key(1)]
    assert [each["name"] for each in (first, second)] == ["anygpu-job-1", "anygpu-job-1-n1"]
    assert second["work"]["ranks"] == {"node": 1, "nodes": 2, "launcher": "none", "processes_per_node": 1}
    with pytest.raises(AlreadyClaimed, match="node 1"):
        await server.desk.claim(TICKETS.ticket("job", 1), "twin", {}, 1)
    with pytest.raises(InvalidReport, match="has 2 nodes"):
        await server.desk.claim(TICKETS.ticket("job", 1), "third", {}, 2)


async def test_no_node_starts_before_all_are_ready() -> None:
    server = await Gang().submit_nodes(2)
    await server.claim_node(0)
    assert await server.desk.ready(key(0), READY) == {"start": False, "missing": [1], "orders": []}
    await server.claim_node(1)
    started = await server.desk.ready(key(1), {"address": "10.0.0.2", "port": 5000})
    assert started == await server.desk.ready(key(0), READY)
    assert (started["start"], started["master_addr"], started["master_port"]) == (True, "10.0.0.1", 4000)


@pytest.mark.parametrize(
    "body", [{}, {"address": "", "port": 1}, {"address": "a\n", "port": 1}, {"address": "a", "port": 0}]
)
async def test_a_node_must_say_where_it_is_reached(body: dict[str, Any]) -> None:
    server = await Gang().submit_nodes(2)
    await server.claim_node(0)
    with pytest.raises(InvalidReport, match="`address`"):
        await server.desk.ready(key(0), body)


async def test_no_node_starts_if_only_some_have_restored_the_checkpoint() -> None:
    server = await Gang().submit_nodes(3)
    for node in range(3):
        await server.claim_node(node)
    await server.desk.report(key(0), ReportBatch(first=1, last=1, logs=[(1, b"prepared\n")]))
    assert not (await server.desk.ready(key(0), {**READY, "restored": True}))["start"]
    with pytest.raises(Superseded):
        await server.desk.ready(key(2), {**READY, "restored": False})
    with pytest.raises(Superseded):
        await server.desk.ready(key(1), {**READY, "restored": True})
    assert [await server.orders(node) for node in range(3)] == [[{"kind": "cancel", "reason": "ended"}]] * 3
    job = await server.view()
    attempt = job.attempts[0]
    assert (attempt.training_at_ms, attempt.marks.log_bytes) == (None, len("prepared\n"))
    decided = verdict(job, attempt)
    assert isinstance(decided, Retry)
    assert (decided.failure.code, decided.counts) == ("not_restored", True), "it is not repeated forever"
    assert "on node 2" in decided.failure.message


@pytest.mark.parametrize("restored", [True, False, None])
async def test_nodes_that_agree_about_the_checkpoint_start(restored: bool | None) -> None:
    server = await Gang().submit_nodes(2)
    answers = []
    for node in range(2):
        await server.claim_node(node)
        answers.append((await server.desk.ready(key(node), {**READY, "restored": restored}))["start"])
    assert answers == [False, True]


async def test_reports_are_stored_by_node_and_metrics_only_of_node_0() -> None:
    server = await Gang().start()
    point = MetricPoint("loss", 1, 1.0, 0.5)
    for node in (0, 1):
        batch = ReportBatch(
            first=1, last=2, logs=[(1, b"node %d\n" % node)], points=[(2, [point])], progress={"step": 1}
        )
        await server.desk.report(key(node), batch)
    logs = [
        (await server.evidence.log("job", report_number(1, node), offset=0, limit=99)).data for node in (0, 1)
    ]
    assert logs == [b"node 0\n", b"node 1\n"]
    rows = [await server.evidence.state("job", report_number(1, node)) for node in (0, 1)]
    assert [(row.marks.metric_points, dict(row.progress), row.acked) for row in rows] == [
        (1, {"step": 1}, 2),
        (0, {}, 2),
    ]


async def test_only_node_0_publishes_files() -> None:
    server = await Gang().start()
    await server.desk.begin_checkpoint(key(0), manifest(4))
    with pytest.raises(InvalidReport, match="node 0 publishes"):
        await server.desk.begin_checkpoint(key(1), manifest(4))


async def test_the_attempt_ends_with_its_last_node() -> None:
    server = await Gang().start()
    assert await server.desk.end(key(0), {**DONE, "step": 7}) == {"ok": True, "wait": True}
    assert await server.desk.end(key(0), {**DONE, "step": 7}) == {"ok": True, "wait": True}
    assert await server.orders(0) == await server.orders(1) == []
    assert await server.desk.end(key(1), DONE) == {"ok": True}
    job = await server.view()
    attempt = job.attempts[0]
    assert (attempt.is_over, attempt.outcome, attempt.exit_code, attempt.step) == (True, "exited", 0, 7)
    assert failure_of(job, attempt) is None
    assert await server.orders(0) == [{"kind": "cancel", "reason": "ended"}]


async def test_an_agent_that_failed_itself_does_not_wait_for_the_other_nodes() -> None:
    server = await Gang().start()
    failed = {"outcome": "agent_lost", "last_seq": 0}
    assert await server.desk.end(key(1), failed) == {"ok": True}
    assert not (await server.view()).attempts[0].nodes[1].has_ended
    assert await server.desk.end(key(0), DONE) == {"ok": True, "wait": True}
    assert await server.desk.end(key(0), failed) == {"ok": True, "wait": True}


async def test_a_failed_node_stops_the_others_and_is_the_cause() -> None:
    server = await Gang().start(3)
    await server.desk.end(key(1), {"outcome": "exited", "exit_code": 3, "message": "boom"})
    assert [await server.orders(node) for node in (0, 1, 2)] == [STOP, [], STOP]
    await server.desk.end(key(0), STOPPED_BY_PEER)
    await server.desk.end(key(2), STOPPED_BY_PEER)
    job = await server.view()
    failure = failure_of(job, job.attempts[0])
    assert failure is not None
    assert (failure.code, failure.blame) == ("exit_code", Blame.USER)


async def test_a_killed_rank_is_retried_although_the_others_failed_by_themselves() -> None:
    server = await Gang().start(2)
    await server.desk.end(
        key(0), {"outcome": "exited", "exit_code": 1, "message": "connection closed by peer"}
    )
    await server.desk.end(key(1), {"outcome": "exited", "signal": 9})
    job = await server.view()
    failure = failure_of(job, job.attempts[0])
    assert failure is not None
    assert (failure.code, failure.blame) == ("killed", Blame.INFRASTRUCTURE)


async def test_a_killed_node_is_the_cause_although_another_one_reported_its_end_first() -> None:
    server = await Gang().start(2)
    await server.desk.end(
        key(0), {"outcome": "exited", "exit_code": 1, "message": "connection closed by peer"}
    )
    assert await server.orders(1) == STOP
    await server.desk.end(key(1), {"outcome": "exited", "exit_code": 137})
    job = await server.view()
    failure = failure_of(job, job.attempts[0])
    assert failure is not None
    assert (failure.code, failure.blame) == ("killed", Blame.INFRASTRUCTURE)


@pytest.mark.parametrize("missing", [0, 2])
async def test_a_node_that_fails_while_another_has_no_agent_ends_the_attempt_with_its_cause(
    missing: int,
) -> None:
    server = await Gang().submit_nodes(3)
    other = 2 - missing
    for node in (1, other):
        await server.claim_node(node)
    await server.desk.ready(key(other), READY)
    failed = {"outcome": "failed_to_start", "message": "setup: command 1 failed"}
    assert await server.desk.end(key(1), failed) == {"ok": True}
    assert await server.orders(other) == [{"kind": "cancel", "reason": "ended"}]
    assert await server.desk.end(key(1), failed) == {"ok": True}
    with pytest.raises(Superseded):  # not acknowledged, because it is not recorded
        await server.desk.end(key(other), {"outcome": "cancelled"})
    with pytest.raises(Superseded):
        await server.claim_node(missing)
    job = await server.view()
    full = Failure(code="no_capacity", message="no node is free", blame=Blame.LAUNCH)
    observed = Observation(state=MachineState.PENDING, failure=full)
    observations = {1: AttemptObservation(probe=Probe(observation=observed), state_s=10**6, silent_probes=99)}
    assert not [e for e in events_due(job, observations, ControlPolicy(), 0.5) if isinstance(e, AttemptLost)]
    decided = verdict(job, job.attempts[0])
    assert isinstance(decided, Failed)
    assert (decided.failure.blame, decided.failure.message) == (Blame.USER, "node 1: setup: command 1 failed")


async def test_a_node_that_is_stopped_before_all_have_an_agent_causes_a_retry() -> None:
    server = await Gang().submit_nodes(2)
    await server.claim_node(0)
    await server.desk.end(key(0), {"outcome": "stopped", "message": "preempt"})
    job = await server.view()
    assert job.attempts[0].is_over
    assert isinstance(verdict(job, job.attempts[0]), Retry)


async def test_a_stop_and_a_cancel_reach_all_nodes() -> None:
    server = await Gang().start()
    await server.desk.leave(key(1), {"message": "the provider takes the machine away"})
    await server.desk.leave(key(1), {"message": "again"})
    assert await server.orders(0) == await server.orders(1) == [{"kind": "stop", "reason": "preempt"}]
    assert (await server.view()).attempts[0].stop_message == "node 1: the provider takes the machine away"
    await server.desk.end(key(1), {"outcome": "stopped", "message": "preempt"})
    assert await server.orders(0) == [{"kind": "stop", "reason": "preempt"}]  # not "peer": it may save first
    await server.write(CancelRequested())
    assert await server.orders(0) == [{"kind": "cancel"}]


async def test_the_time_limit_that_one_node_reaches_first_ends_the_job() -> None:
    server = await Gang().start()
    await server.desk.leave(key(1), {"message": "timeout", "reason": "timeout"})
    assert await server.orders(0) == [{"kind": "stop", "reason": "timeout"}]
    await server.desk.end(key(1), {"outcome": "timeout", "message": "timeout"})
    await server.desk.end(key(0), {"outcome": "timeout", "message": "timeout"})
    job = await server.view()
    failure = failure_of(job, job.attempts[0])
    assert failure is not None
    assert (failure.code, failure.blame) == ("timeout", Blame.PLATFORM), "it is not tried again"


OOM = MemoryUse(oom_killed=True)
CASES: list[tuple[list[dict[str, Any]], int]] = [
    ([DONE, DONE], 0),
    ([DONE, {"outcome": "exited", "exit_code": 1}], 1),
    ([{"outcome": "exited", "exit_code": 1}, {"outcome": "exited", "exit_code": 137}], 1),
    ([{"outcome": "exited", "exit_code": 1}, {"outcome": "exited", "exit_code": 1, "memory": OOM}], 1),
    ([{"outcome": "exited", "signal": 6}, {"outcome": "exited", "signal": 9}], 1),
    ([{"outcome": "exited", "exit_code": 134}, {"outcome": "exited", "exit_code": 137}], 1),
    ([{"outcome": "exited", "exit_code": 134}, {"outcome": "exited", "exit_code": 143}], 1),
    ([{"outcome": "exited", "signal": 6}, {"outcome": "exited", "exit_code": 1, "memory": OOM}], 1),
    ([{"outcome": "exited", "exit_code": 1}, {"outcome": "exited", "signal": 11}], 1),
    ([{"outcome": "exited", "signal": 9}, {"outcome": "failed_to_start"}], 1),
    ([{"outcome": "exited", "signal": 15}, {"outcome": "stopped", "message": "preempt"}], 1),
    ([{"outcome": "stopped", "message": "preempt"}, {"outcome": "timeout"}], 1),
    ([STOPPED_BY_PEER, {"outcome": "exited", "exit_code": 2}], 1),
    ([{"outcome": "exited", "exit_code": 2}, {"outcome": "exited", "exit_code": 2}], 0),
]


@pytest.mark.parametrize(("ends", "cause"), CASES)
def test_the_cause_of_an_end_is_the_node_that_did_not_only_lose_the_others(
    ends: list[dict[str, Any]], cause: int
) -> None:
    assert find_cause([NodeView(ended_at_ms=1, **end) for end in ends]) == cause
