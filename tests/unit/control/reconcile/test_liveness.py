"""An attempt counts as lost only on strong evidence, and the reason is named."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.control.jobs_in_states import CANCEL, launched, launching, stopping, training, view

from anygpu.backends.contract import MachineState, Observation
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.liveness import detect_loss, is_absent, is_unreachable, must_migrate
from anygpu.control.reconcile.observation import AttemptObservation, AttemptTracker, Probe
from anygpu.events.facts import Blame, Failure
from anygpu.events.types import Event, MigrateRequested
from anygpu.events.view import NodeView
from anygpu.store.reports import ReportState

POLICY = ControlPolicy()
NEVER_S = 10**6
PROBES = POLICY.probes_before_lost


def loss(events: list[Event], nodes: int = 0, **observed: Any) -> Failure | None:
    job = view(*events)
    attempt = replace(job.attempts[0], nodes=(NodeView(),) * nodes)
    return detect_loss(job, attempt, AttemptObservation(**observed), POLICY)


def probe(state: MachineState, **observed: Any) -> Probe:
    return Probe(observation=Observation(state=state, **observed))


@pytest.mark.parametrize(
    ("events", "observed", "code", "blame"),
    [
        ([launching(), CANCEL], {}, "cancelled", Blame.PLATFORM),
        ([launching(), MigrateRequested(to="elsewhere")], {}, "migrate", Blame.PREEMPTION),
        (
            [launching()],
            {"unreachable": "not configured", "unreachable_s": NEVER_S},
            "backend_missing",
            Blame.LAUNCH,
        ),
        ([launching()], {"launch_failures": POLICY.max_launch_tries}, "launch_unknown", Blame.LAUNCH),
        (
            [launching()],
            {"launch_failures": POLICY.max_launch_tries, "launch_is_broken": True},
            "launch_error",
            Blame.LAUNCH,
        ),
        (launched(), {"state_s": NEVER_S, "silent_probes": PROBES}, "never_started", Blame.LAUNCH),
        (training(), {"silent_s": NEVER_S, "silent_probes": PROBES}, "silent", Blame.INFRASTRUCTURE),
        (training(), {"probe": probe(MachineState.GONE)}, "machine_lost", Blame.INFRASTRUCTURE),
        (training(), {"probe": probe(MachineState.GONE, preempted=True)}, "preempted", Blame.PREEMPTION),
        ([*training(), stopping("timeout")], {"stop_requested_s": NEVER_S}, "timeout", Blame.PLATFORM),
    ],
)
def test_the_reason_of_a_loss_is_named(
    events: list[Event], observed: dict[str, Any], code: str, blame: Blame
) -> None:
    failure = loss(events, **observed)
    assert failure is not None
    assert (failure.code, failure.blame) == (code, blame)
    assert failure.message


@pytest.mark.parametrize(
    ("events", "observed"),
    [
        ([launching()], {"unreachable": "starting", "unreachable_s": 0}),
        (launched(), {"state_s": NEVER_S, "silent_probes": PROBES - 1}),
        (training(), {"silent_s": NEVER_S, "silent_probes": PROBES - 1}),
        (training(), {"probe": Probe(detail="the provider did not answer"), "silent_s": 1}),
        (training(), {"probe": probe(MachineState.ABSENT), "absent_s": NEVER_S, "absent_probes": PROBES}),
        ([*training(), CANCEL], {"stop_requested_s": 1}),
    ],
)
def test_without_strong_evidence_the_attempt_may_be_alive(
    events: list[Event], observed: dict[str, Any]
) -> None:
    assert loss(events, **observed) is None


def test_launches_without_an_answer_are_explained_by_the_last_error() -> None:
    failure = loss([launching()], launch_failures=POLICY.max_launch_tries, probe=Probe(detail="status 503"))
    assert failure is not None
    assert failure.message.endswith("requests to start the machine: status 503")


def loss_after(*probes: tuple[int, Observation]) -> Failure | None:
    """Return why a launched attempt counts as lost after probes every 10 s: each observation lasts until its time."""
    job, begin = view(*launched()), 0
    tracker = AttemptTracker.begin(job.attempts[0], ReportState(), begin)
    for end, observation in probes:
        times, begin = range(begin + 10, end + 10, 10), end
        for now in times:
            tracker.record_probe(observation, "", now)
            if failure := detect_loss(job, job.attempts[0], tracker.observe(now), POLICY):
                return failure
    return None


def test_a_slow_start_within_the_limit_of_the_backend_is_not_ended() -> None:
    pulling = Observation(state=MachineState.PENDING, detail="its container starts", start_limit_s=1800)
    running = Observation(state=MachineState.RUNNING)
    assert loss_after((1700, pulling), (2200, running)) is None
    late = loss_after((1700, pulling), (2400, running))
    assert late is not None
    assert late.code == "never_started"
    endless = loss_after((2500, pulling))
    assert endless is not None
    assert (endless.code, "its container starts" in endless.message) == ("never_started", True)


def test_the_reason_of_the_backend_is_used_when_its_limit_has_passed() -> None:
    reason = Failure(code="image", message="ImagePullBackOff", blame=Blame.USER)
    pulling = Observation(state=MachineState.PENDING, start_limit_s=1800)
    assert loss_after((1800, pulling), (1830, replace(pulling, failure=reason))) is reason


def test_an_agent_that_never_started_is_explained_by_the_last_check_of_its_machine() -> None:
    pulling = probe(MachineState.PENDING, detail="the image a:1 cannot be pulled: ImagePullBackOff")
    failure = loss(launched(), state_s=NEVER_S, silent_probes=PROBES, probe=pulling)
    assert failure is not None
    assert failure.message.endswith("is pending: the image a:1 cannot be pulled: ImagePullBackOff")


def test_a_refusal_of_the_provider_is_passed_on() -> None:
    refusal = Failure(code="no_capacity", message="full", blame=Blame.LAUNCH)
    assert loss([launching()], refusal=refusal) is refusal


def test_the_cause_that_the_engine_reported_is_passed_on() -> None:
    cause = Failure(code="out_of_memory", message="the container was killed", blame=Blame.USER)
    assert loss(training(), probe=probe(MachineState.EXITED, end_cause=cause)) is cause


def test_missing_agents_of_several_nodes_are_listed() -> None:
    failure = loss(launched(), nodes=3, state_s=NEVER_S, silent_probes=PROBES)
    assert failure is not None
    assert "3 of 3 nodes (0, 1, 2)" in failure.message


def test_a_machine_is_absent_after_several_probes_over_a_while() -> None:
    assert is_absent(AttemptObservation(absent_s=NEVER_S, absent_probes=PROBES), POLICY)
    assert not is_absent(AttemptObservation(absent_s=NEVER_S, absent_probes=PROBES - 1), POLICY)
    assert not is_absent(AttemptObservation(absent_s=0, absent_probes=NEVER_S), POLICY)


def test_a_backend_that_is_missing_for_a_moment_is_not_unreachable() -> None:
    assert not is_unreachable(AttemptObservation(unreachable="x", unreachable_s=0), POLICY)
    assert not is_unreachable(AttemptObservation(unreachable="", unreachable_s=NEVER_S), POLICY)
    assert is_unreachable(AttemptObservation(unreachable="x", unreachable_s=NEVER_S), POLICY)


def test_an_attempt_that_is_already_at_the_requested_backend_stays() -> None:
    job = view(*training(), MigrateRequested(to="cloud"))
    assert not must_migrate(job, job.attempts[0])
    elsewhere = view(*training(), MigrateRequested(to="lab"))
    assert must_migrate(elsewhere, elsewhere.attempts[0])
    assert not must_migrate(view(*training()), job.attempts[0])
