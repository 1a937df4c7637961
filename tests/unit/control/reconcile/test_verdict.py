"""What an attempt's end means for its job."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.control.jobs_in_states import (
    CANCEL,
    checkpoint,
    ended,
    launching,
    lost,
    recovering,
    released,
    saved,
    stopping,
    training,
    view,
)

from anygpu.backends.ssh.errors import SshUnreachable
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.verdict import (
    Cancelled,
    Completed,
    Failed,
    Retry,
    failure_of,
    is_outage,
    launch_failure,
    retry_delay_s,
    verdict,
)
from anygpu.errors import BackendUnavailable, LaunchError, LaunchRefused
from anygpu.events.facts import Blame, Failure, MemoryUse
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptClaimed, Event, JobPlanned, StopRequested
from anygpu.events.view import JobView, NodeView

ROOM = StopRequested(attempt=1, reason="preempt", message="makes room for job x", makes_room_for="x")
SILENT = Failure(code="silent", message="", blame=Blame.INFRASTRUCTURE)
TABLE = [
    ("exit 0", [ended(exit_code=0)], "Completed"),
    ("exit 1", [ended(exit_code=1)], "Failed exit_code"),
    ("SIGSEGV", [ended(signal=11)], "Failed crashed"),
    ("SIGKILL", [ended(signal=9)], "Retry killed"),
    ("SIGKILL, as a shell tells it", [ended(exit_code=137)], "Retry killed"),
    ("could not start", [ended(outcome="failed_to_start")], "Failed failed_to_start"),
    ("time limit", [ended(outcome="timeout")], "Failed timeout"),
    ("stopped for a budget", [stopping("budget"), ended(outcome="stopped")], "Failed budget"),
    ("stopped for preemption", [stopping("preempt"), ended(outcome="stopped")], "Retry preempt free"),
    ("stopped for another job", [ROOM, ended(outcome="stopped")], "Retry preempt free"),
    (
        "stopped for another job, and silent",
        [ROOM, lost(code="preempt", blame=Blame.PREEMPTION)],
        "Retry preempt free",
    ),
    ("stopped by its machine", [ended(outcome="stopped")], "Retry preempt free"),
    ("moved", [stopping("migrate"), ended(outcome="stopped")], "Retry migrate free"),
    ("handed over", [stopping("handover"), saved(10), ended(outcome="stopped")], "Retry handover free"),
    ("handed over, no further", [stopping("handover"), ended(outcome="stopped")], "Retry handover"),
    ("lease lost", [ended(outcome="lease_lost")], "Retry lease_lost"),
    ("silent", [lost()], "Retry silent"),
    ("silent after progress", [saved(10), lost()], "Retry silent free"),
    ("preempted", [lost(code="preempted", blame=Blame.PREEMPTION)], "Retry preempted free"),
    ("no capacity", [lost(code="no_capacity", blame=Blame.LAUNCH)], "Retry no_capacity free"),
    ("no key", [lost(code="credentials_refused", blame=Blame.LAUNCH)], "Retry credentials_refused free"),
    ("no quota", [lost(code="quota", blame=Blame.LAUNCH)], "Retry quota free"),
    (
        "a machine that cannot be reached",
        [lost(code="backend_unavailable", blame=Blame.LAUNCH)],
        "Retry backend_unavailable",
    ),
    ("launch refused", [lost(code="launch_refused", blame=Blame.LAUNCH)], "Retry launch_refused"),
    ("cancelled", [CANCEL, ended(outcome="cancelled")], "Cancelled"),
    ("succeeded after the cancel", [CANCEL, ended(exit_code=0)], "Cancelled"),
]


@pytest.mark.parametrize(("events", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_an_end_is_judged_by_who_is_to_blame(events: list[Any], expected: str) -> None:
    job = view(*training(), *events)
    assert job.newest_attempt is not None
    match verdict(job, job.newest_attempt):
        case Completed() | Cancelled() as end:
            assert type(end).__name__ == expected
        case Failed(failure):
            assert f"Failed {failure.code}" == expected
        case Retry(failure, counts):
            assert f"Retry {failure.code}{'' if counts else ' free'}" == expected


def test_retries_that_count_run_out() -> None:
    job = view(*training(), lost(), recovering(), *training(2), lost(2), limits={"max_retries": 1})
    assert job.newest_attempt is not None
    assert isinstance(verdict(job, job.newest_attempt), Failed)


def test_launches_that_did_not_reach_the_backend_use_up_no_retry() -> None:
    outage = lost(2, code="backend_unavailable", blame=Blame.LAUNCH)
    job = view(*training(), lost(), recovering(), launching(2), outage, limits={"max_retries": 1})
    assert job.newest_attempt is not None
    assert verdict(job, job.newest_attempt) == Retry(outage.failure, counts=False)


@pytest.mark.parametrize(
    ("offer", "counts"),
    [
        (Offer(backend="lab", own=True), False),
        (Offer(backend="lab", own=True, price_microusd_per_hour=1), False),
        (Offer(backend="cloud", price_microusd_per_hour=1), True),
    ],
)
def test_launches_without_an_answer_use_up_a_retry_only_if_they_may_have_rented_a_machine(
    offer: Offer, counts: bool
) -> None:
    unknown = lost(code="launch_unknown", blame=Blame.LAUNCH)
    job = view(replace(launching(), offer=offer), unknown)
    assert job.newest_attempt is not None
    assert verdict(job, job.newest_attempt) == Retry(unknown.failure, counts=counts)


def test_an_agent_that_has_started_shows_that_its_backend_launched_the_attempt() -> None:
    own = replace(launching(), offer=Offer(backend="lab", own=True))
    claimed = AttemptClaimed(attempt=1, claimant="agent")
    job = view(own, claimed, lost(code="launch_unknown", blame=Blame.LAUNCH))
    assert job.newest_attempt is not None
    assert not is_outage(job.newest_attempt)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BackendUnavailable("refused"), "backend_unavailable"),
        (SshUnreachable("refused"), "backend_unavailable"),
        (LaunchRefused("refused"), "launch_refused"),
    ],
)
def test_all_errors_of_an_unreachable_backend_have_one_code(error: LaunchError, code: str) -> None:
    assert launch_failure(error) == Failure(code=code, message="refused", blame=Blame.LAUNCH)


def test_retries_without_progress_back_off_up_to_a_bound() -> None:
    policy = ControlPolicy(retry_base_s=1, retry_max_s=5)
    events: list[Any] = []
    delays = []
    for number in range(1, 6):
        events += [*training(number), lost(number)]
        delays.append(retry_delay_s(view(*events), SILENT, policy, jitter=1.0))
        events.append(recovering(number))
    assert delays == [1, 2, 4, 5, 5]


def test_after_progress_the_job_goes_on_at_once() -> None:
    job = view(*training(), lost(), recovering(), *training(2), saved(4, 2), lost(2))
    assert retry_delay_s(job, SILENT, ControlPolicy(retry_base_s=1), jitter=1.0) == 0


@pytest.mark.parametrize("blame", [Blame.LAUNCH, Blame.PREEMPTION])
def test_after_a_refusal_or_a_preemption_another_place_is_tried_at_once(blame: Blame) -> None:
    job = view(*training(), lost(blame=blame), recovering(), *training(2), lost(2, blame=blame))
    assert retry_delay_s(job, replace(SILENT, blame=blame), ControlPolicy(), jitter=1.0) == 0


def test_saving_what_one_resumed_from_is_no_progress() -> None:
    resumed = training(2, resume=checkpoint(4))
    job = view(*training(), saved(4), lost(), recovering(counts=False), *resumed, saved(4, 2), lost(2))
    assert job.newest_attempt is not None
    ruling = verdict(job, job.newest_attempt)
    assert isinstance(ruling, Retry)
    assert ruling.counts


def test_the_person_reads_for_whom_the_job_made_room() -> None:
    job = view(*training(), ROOM, ended(outcome="stopped"))
    found = verdict(job, job.attempts[0])
    assert isinstance(found, Retry)
    assert found.failure.message == "makes room for job x"


GIB = 2**30
FULL = MemoryUse(peak_bytes=round(30.1 * GIB), limit_bytes=32 * GIB)
OOM = replace(FULL, oom_killed=True)
HINT = "Request more memory (resources.memory, --memory), or use a smaller batch size or fewer data loader workers."


@pytest.mark.parametrize(
    ("how", "code", "blame", "message"),
    [
        ({"signal": 9}, "killed", Blame.INFRASTRUCTURE, "the process was killed by signal 9"),
        (
            {"signal": 9, "memory": FULL},
            "killed",
            Blame.INFRASTRUCTURE,
            "the process was killed by signal 9; its memory peaked at 30.1 of 32.0 GiB",
        ),
        (
            {"signal": 9, "memory": OOM},
            "out_of_memory",
            Blame.USER,
            "the process was killed by signal 9; its memory peaked at 30.1 of 32.0 GiB; the kernel reports an"
            f" out-of-memory kill. {HINT}",
        ),
        (
            {"exit_code": 137, "memory": MemoryUse(oom_killed=True)},
            "out_of_memory",
            Blame.USER,
            f"the process was killed by signal 9; the kernel reports an out-of-memory kill. {HINT}",
        ),
        (
            {"exit_code": 1, "memory": OOM},  # the kernel killed a worker of the script
            "out_of_memory",
            Blame.USER,
            "the script exited with code 1; its memory peaked at 30.1 of 32.0 GiB; the kernel reports an"
            f" out-of-memory kill. {HINT}",
        ),
        ({"exit_code": 1, "memory": FULL}, "exit_code", Blame.USER, "the script exited with code 1"),
        ({"signal": 11}, "crashed", Blame.USER, "the process was ended by signal 11"),
    ],
)
def test_a_kill_is_told_with_what_is_known_of_it(
    how: dict[str, Any], code: str, blame: Blame, message: str
) -> None:
    job = view(*training(), ended(**how))
    assert failure_of(job, job.attempts[0]) == Failure(code=code, message=message, blame=blame)


@pytest.mark.parametrize(
    ("memory", "requested_gib", "blame"),
    [
        (replace(OOM, machine_bytes=64 * GIB), None, Blame.USER),  # the limit is the job's own
        (replace(OOM, machine_bytes=32 * GIB), None, Blame.INFRASTRUCTURE),
        (replace(OOM, machine_bytes=32 * GIB), 31, Blame.INFRASTRUCTURE),  # others used the rest
        (replace(OOM, machine_bytes=32 * GIB), 16, Blame.USER),  # no limit kept the job within its request
        (MemoryUse(machine_bytes=32 * GIB, oom_killed=True), None, Blame.INFRASTRUCTURE),
        (MemoryUse(oom_killed=True), None, Blame.USER),  # of an older agent
    ],
)
def test_a_job_is_to_blame_for_lack_of_memory_only_if_it_used_more_than_its_own(
    memory: MemoryUse, requested_gib: float | None, blame: Blame
) -> None:
    job = view(*training(), ended(signal=9, memory=memory), resources={"memory": requested_gib})
    failure = failure_of(job, job.attempts[0])
    assert failure is not None
    assert (failure.code, failure.blame) == ("out_of_memory", blame)
    assert ("the machine ran out of memory" in failure.message) is (blame is Blame.INFRASTRUCTURE)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"exit_code": 3}, "the script exited with code 3 on node 1"),
        ({"signal": 9}, "the process was killed by signal 9 on node 1"),
    ],
)
def test_a_failure_on_several_nodes_names_the_node(how: dict[str, Any], message: str) -> None:
    job = view(*training(), ended(**how))
    attempt = job.attempts[0]
    stopped = NodeView(outcome="stopped")
    failed = NodeView(outcome="exited", exit_code=attempt.exit_code, signal=attempt.signal)
    failure = failure_of(job, replace(attempt, nodes=(stopped, failed)))
    assert failure is not None
    assert failure.message == message


def killed_again(
    *second: Event, step: int | None, first: dict[str, Any] | None = None, retries: int = 3
) -> JobView:
    how = first or {"signal": 9, "step": 40}
    before = [*training(), ended(**how), released(), recovering()]
    limits = {"max_retries": retries}
    return view(*before, *training(2), *second, ended(2, signal=9, step=step), limits=limits)


@pytest.mark.parametrize(
    ("job", "retried"),
    [
        (killed_again(step=40), False),
        (killed_again(step=None, first={"signal": 9}), False),
        (
            killed_again(*[JobPlanned(plan="k")] * 3, step=None, first={"signal": 9}),
            True,
        ),  # three seconds later
        (killed_again(step=39), True),
        (killed_again(step=41), True),
        (killed_again(step=40, retries=9), True),
        (killed_again(saved(20, 2), step=40), True),  # it made progress
        (killed_again(step=40, first={"exit_code": 137, "step": 40}), True),
        (killed_again(step=40, first={"outcome": "lease_lost"}), True),
    ],
)
def test_the_same_kill_at_the_same_point_is_retried_once(job: JobView, retried: bool) -> None:
    decided = verdict(job, job.attempts[1])
    if retried:
        assert isinstance(decided, Retry)
    else:
        assert isinstance(decided, Failed)
        assert decided.failure.message == (
            "the process was killed by signal 9; the job is not tried again, because it failed twice at the same "
            "point"
        )


@pytest.mark.parametrize("step", [40, 41])
def test_a_machine_that_runs_out_of_memory_at_the_same_point_again_is_no_reason_for_another_try(
    step: int,
) -> None:
    how: dict[str, Any] = {"signal": 9, "memory": replace(OOM, machine_bytes=32 * GIB)}
    first = [*training(), ended(step=40, **how), released(), recovering()]
    job = view(*first, *training(2), ended(2, step=step, **how))
    assert isinstance(verdict(job, job.attempts[1]), Failed if step == 40 else Retry)
