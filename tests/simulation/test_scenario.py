"""Scenarios depend only on their seed, and their jobs are valid."""

from anygpu.testing.simulation.scenario import Scenario, scenario_for_seed

SEEDS = range(300)


def scenarios() -> list[Scenario]:
    return [scenario_for_seed(seed) for seed in SEEDS]


def test_the_same_seed_gives_the_same_scenario_and_others_differ() -> None:
    first, second = scenarios(), scenarios()
    assert first == second
    assert len({repr(scenario) for scenario in first}) == len(SEEDS)


def test_every_job_has_a_valid_spec_and_a_backend_that_may_answer() -> None:
    for scenario in scenarios():
        assert scenario.jobs
        assert all(job.spec().resources.nodes == job.nodes for job in scenario.jobs)
        assert any(not backend.dead for backend in scenario.backends), scenario.seed


def test_the_kinds_of_scenario_all_occur() -> None:
    made = scenarios()
    backends = [backend for scenario in made for backend in scenario.backends]
    jobs = [job for scenario in made for job in scenario.jobs]
    assert any(backend.queues for backend in backends)
    assert any(backend.relayed for backend in backends)
    assert any(backend.interruptible for backend in backends)
    assert any(job.nodes > 1 for job in jobs)
    assert any(job.deadline_s for job in jobs)
    assert any(job.migrate_at for job in jobs)
    assert any(len({job.project for job in scenario.jobs}) > 1 for scenario in made)
