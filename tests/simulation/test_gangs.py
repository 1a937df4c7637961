"""Histories with jobs on several machines hold the invariants, and bugs planted in the code of gangs are caught."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.planted import Patch, Planted

from anygpu.control.accounting import money
from anygpu.control.agents import gang
from anygpu.control.reconcile.attempt import AttemptReconciler
from anygpu.errors import NoCapacity
from anygpu.events.offers import Handle
from anygpu.events.types import NodeEnded, NodeReady, TrainingStarted
from anygpu.events.view import AttemptView
from anygpu.testing.simulate import History, play
from anygpu.testing.simulation.providers.backend import SimBackend
from anygpu.testing.simulation.providers.provider import SimMachine, SimProvider
from anygpu.testing.simulation.scenario import gang_scenario
from anygpu.testing.simulation.world import Store

SEEDS = 60
pytestmark = pytest.mark.slow


def history(seed: int, store: Store = "memory") -> History:
    return play(gang_scenario(random.Random(f"gangs:{seed}"), str(seed)), store)


@pytest.mark.parametrize("seeds", [range(20), range(20, 40)], ids=["first", "second"])
def test_histories_with_gangs_hold_the_invariants(seeds: range) -> None:
    histories = [history(seed) for seed in seeds]
    assert [str(each) for each in histories if each.failed] == []
    kinds = {type(event) for each in histories for event in each.events}
    assert {NodeReady, NodeEnded, TrainingStarted} <= kinds


def test_histories_with_gangs_hold_the_invariants_in_sql() -> None:
    assert [str(each) for each in (history(seed, "sql") for seed in range(40, 46)) if each.failed] == []


PLANTED: list[Planted] = []


def planted(*caught_by: int) -> Callable[[Callable[[], list[Patch]]], Callable[[], list[Patch]]]:
    def plant(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        PLANTED.append(Planted(patches.__name__, frozenset(caught_by), tuple(patches())))
        return patches

    return plant


@planted(16)
def a_gang_starts_with_a_node_missing() -> list[Patch]:
    right = gang.start_fields

    def start_fields(attempt: AttemptView) -> dict[str, Any]:
        ready = [node for node in attempt.nodes if node.ready_at_ms is not None]
        return {**right(attempt), "start": len(ready) >= len(attempt.nodes) - 1}

    return [
        (gang, "start_fields", start_fields),
        (AttemptView, "are_nodes_ready", property(lambda self: True)),
    ]


@planted(16)
def the_end_of_one_node_leaves_the_others_running() -> list[Patch]:
    return [(gang, "node_orders", lambda attempt, key: [])]


@planted(1)
def a_silent_node_is_not_noticed() -> list[Patch]:
    async def no_reports(self: AttemptReconciler, job_id: str, attempt: AttemptView) -> dict[int, Any]:
        return {}

    return [(AttemptReconciler, "_peer_reports", no_reports)]


@planted(4)
def the_ledger_counts_one_machine_of_a_gang() -> list[Patch]:
    return [(money, "_node_intervals", lambda attempt, first, observation: [first])]


@planted(1, 3)
def the_machines_of_a_gang_leak() -> list[Patch]:
    right = SimProvider.listed_machines

    async def terminate(self: SimBackend, handle: Handle) -> None:
        await self._send_request()
        for machine in right(self._provider, handle.name):
            if machine.node == 0:
                self._provider.end_soon(machine)

    return [(SimBackend, "terminate", terminate)]


@planted(1)
def two_gangs_hold_some_machines_and_wait_for_the_others() -> list[Patch]:
    right = SimProvider.create

    async def launch(self: SimBackend, launch: Any, offer: Any) -> Handle:
        await self._send_request()
        taken: list[SimMachine] = []
        while len(taken) < launch.nodes:
            with contextlib.suppress(NoCapacity):
                taken = right(self._provider, replace(launch, nodes=len(taken) + 1))
            await asyncio.sleep(5)
        return Handle(name=launch.name)

    return [(SimBackend, "launch", launch)]


@planted(1)
def a_killed_rank_counts_as_an_error_of_the_script() -> list[Patch]:
    def find_cause(nodes: list[Any]) -> int:
        """The first node that failed, whatever the reason of the others."""
        return next((number for number, node in enumerate(nodes) if node.exit_code), 0)

    return [(gang, "find_cause", find_cause)]


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_planted_bug_of_gangs_is_caught(bug: Planted) -> None:
    with bug.in_place():
        caught = any(
            violation.invariant in bug.caught_by
            for each in map(history, range(SEEDS))
            for violation in each.violations
        )
    assert caught, f"{bug.name} was not noticed by invariants {set(bug.caught_by)} in {SEEDS} seeds"
