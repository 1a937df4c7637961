"""The simulation catches what it is there to catch: bugs planted in the control code, each within 300 seeds."""

from collections.abc import Iterator
from itertools import chain

import pytest
from tests.simulation.planted import PLANTED, Planted

from anygpu.testing.simulate import History, play
from anygpu.testing.simulation.scenario import scenario_for_seed
from anygpu.testing.simulation.world import Store

SEEDS = 300
LOOK_FIRST = {  # where the rare ones were met last; when they move, all seeds are gone through
    "the_next_attempt_starts_before_the_lease_has_run_out": 13,
    "an_outage_of_a_backend_uses_up_retries": 127,
    "any_agent_may_claim": 33,
    "only_metrics_are_fenced": 45,
    "there_is_no_net_under_the_wake_ups": 22,
    "terminate_is_called_only_once": 20,
    "the_price_of_the_offer_is_charged_whatever_the_provider_says": 15,
    "checkpoints_are_resumed_unread": 69,
    "the_answer_to_another_request_is_taken_for_the_own": 16,
    "mailboxes_are_left": 69,
    "only_the_server_that_saw_the_end_removes_the_mailbox": 93,
    "spot_is_waited_for_whatever_the_deadline": 23,
    "jobs_that_cannot_resume_are_moved": 147,
    "a_job_is_moved_to_and_fro": 35,
    "advice_is_taken_for_an_order": 192,
    "the_newest_job_is_always_first": 89,
    "a_quota_is_only_a_wish": 49,
    "jobs_that_cannot_go_on_are_stopped_for_others": 89,
    "a_restored_checkpoint_is_taken_for_a_resume": 17,
    "restarts_go_unnoticed": 118,
    "a_restart_loses_only_what_was_not_saved": 118,
    "checkpoint_files_are_a_way_to_resume": 119,
    "a_job_that_restarted_goes_to_spot_again": 118,
    "a_requeued_job_runs_the_same_attempt_again": 28,
}

pytestmark = pytest.mark.slow
each = pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)


def test_there_are_more_than_fifteen_planted_bugs() -> None:
    assert len({bug.name for bug in PLANTED}) == len(PLANTED) > 15


@each
def test_a_planted_bug_is_caught_by_its_invariant(bug: Planted) -> None:
    with bug.in_place():
        histories = (_history(seed, bug.store) for seed in _seeds(bug))
        caught = next((history for history in histories if _caught(bug, history)), None)
    assert caught is not None, (
        f"{bug.name} was not noticed by invariants {set(bug.caught_by)} in {SEEDS} seeds"
    )


@pytest.mark.parametrize("name", ["user_errors_are_retried", "terminate_is_called_only_once"])
def test_a_failing_seed_replays_to_the_very_same_failure(name: str) -> None:
    bug = next(bug for bug in PLANTED if bug.name == name)
    with bug.in_place():
        first = next(history for history in map(_history, _seeds(bug)) if history.failed)
        second = _history(int(first.seed))
    assert second.violations == first.violations
    assert second.trace_hash == first.trace_hash


def _seeds(bug: Planted) -> Iterator[int]:
    return chain([LOOK_FIRST.get(bug.name, 0)], range(SEEDS))


def _history(seed: int, store: Store = "memory") -> History:
    return play(scenario_for_seed(seed), store)


def _caught(bug: Planted, history: History) -> bool:
    return any(violation.invariant in bug.caught_by for violation in history.violations)
