"""What past runs of a workload say of the next one: a middle, an honest interval, and which runs count."""

import random
from collections.abc import Mapping
from math import exp

import pytest

from anygpu.events.offers import Offer
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import rank
from anygpu.plan.predict.history import (
    PastRun,
    RunMachine,
    fingerprint,
    predict_from_history,
    rough_duration,
    training_length,
)
from anygpu.spec.load import from_mapping

HERE = RunMachine(backend="aws", gpu_kind="A100-40GB", gpu_count=1)
SLOWER = RunMachine(backend="aws", gpu_kind="T4", gpu_count=1)
LOCAL = RunMachine(backend="local")


def past(training_s: float, machine: RunMachine = HERE, **known: float) -> PastRun:
    return PastRun(machine=machine, training_s=training_s, **known)  # type: ignore[arg-type]


def width(*runs: PastRun, machine: RunMachine = HERE, steps: int | None = None) -> float:
    found = predict_from_history(machine, runs, steps=steps)
    assert found is not None
    return found.training_s.high / found.training_s.low


def test_without_a_run_that_can_be_compared_there_is_no_answer() -> None:
    assert predict_from_history(HERE, []) is None
    assert predict_from_history(HERE, [past(100, LOCAL)]) is None
    assert predict_from_history(HERE, [past(0)]) is None


def test_alike_runs_are_expected_to_be_alike_again() -> None:
    found = predict_from_history(HERE, [past(100), past(104), past(96)])
    assert found is not None
    assert found.training_s.expected == pytest.approx(100, rel=0.01)
    assert found.training_s.low < 96
    assert found.training_s.high > 104
    assert (found.runs, found.basis) == (3, "history")
    assert "3 past runs" in found.explanation


def test_more_runs_make_the_interval_narrower_and_unlike_ones_wider() -> None:
    assert width(past(100)) > width(past(100), past(100)) > width(*[past(100)] * 10)
    assert width(past(50), past(200)) > 2 * width(past(100), past(100))


def test_a_longer_run_takes_longer_and_is_less_sure() -> None:
    one = past(100, steps=1000)
    found = predict_from_history(HERE, [one], steps=3000)
    assert found is not None
    assert found.training_s.expected == pytest.approx(300, rel=0.01)
    assert width(one, steps=3000) > width(one, steps=1000)
    assert width(past(100), steps=1000) > width(one, steps=1000)  # nobody counted its steps


def test_without_counted_steps_what_jobs_ask_for_tells_how_much_longer_one_is() -> None:
    one = past(100, length="epochs 3")  # type: ignore[arg-type]
    found = predict_from_history(HERE, [one], length="epochs 30")
    assert found is not None
    assert found.training_s.expected == pytest.approx(1000, rel=0.01)
    unlike = predict_from_history(HERE, [one], length="steps 500")
    assert unlike is not None
    assert unlike.training_s.high / unlike.training_s.low > width(past(100))


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({"script": "t.py", "args": ["--epochs", "3", "--lr", "0.1"]}, "epochs 3"),
        ({"script": "t.py", "args": ["--max_steps=500"]}, "max_steps 500"),
        ({"trainer": "yolo", "config": {"epochs": 7, "model": "yolo11n"}}, "epochs 7"),
        ({"command": "python t.py epochs=9"}, "epochs 9"),
        ({"script": "t.py", "args": ["--epochs", "many"]}, ""),
        ({"script": "t.py"}, ""),
    ],
)
def test_the_length_a_job_asks_for_is_read_from_its_words(job: dict[str, object], says: str) -> None:
    assert training_length(from_mapping(job)) == says


def test_runs_of_several_lengths_tell_how_time_grows_with_steps() -> None:
    runs = [past(5 * (steps / 100) ** 1.4, steps=steps) for steps in (50, 100, 200, 400, 800)]
    found = predict_from_history(HERE, runs, steps=1600)
    assert found is not None
    assert found.training_s.expected == pytest.approx(5 * 16**1.4, rel=0.15)


def test_another_gpu_is_translated_by_data_sheets_and_is_less_sure() -> None:
    found = predict_from_history(SLOWER, [past(100, step_s=0.1)])
    assert found is not None
    assert found.training_s.expected > 200
    assert found.step_s is not None
    assert found.step_s.expected > 0.2
    assert width(past(100), machine=SLOWER) > 1.5 * width(past(100))
    assert "A100" in found.explanation


def test_runs_on_the_same_kind_of_machine_count_alone() -> None:
    found = predict_from_history(HERE, [past(100), past(900, SLOWER)])
    assert found is not None
    assert found.training_s.expected == pytest.approx(100)
    assert found.runs == 1


def test_two_gpus_are_faster_than_one() -> None:
    two = RunMachine(backend="aws", gpu_kind="A100-40GB", gpu_count=2)
    found = predict_from_history(two, [past(100)])
    assert found is not None
    assert 50 < found.training_s.expected < 60


@pytest.mark.parametrize("runs", [1, 2, 4, 8])
@pytest.mark.parametrize("spread", [0.03, 0.12, 0.2])
def test_the_interval_holds_the_next_run_nine_times_in_ten(runs: int, spread: float) -> None:
    chance = random.Random(f"{runs} {spread}")
    held = 0
    for _ in range(500):
        drawn = [100 * exp(chance.gauss(0, spread)) for _ in range(runs + 1)]
        found = predict_from_history(HERE, [past(each) for each in drawn[:-1]])
        assert found is not None
        held += found.training_s.low <= drawn[-1] <= found.training_s.high
    assert held >= (0.9 if spread <= 0.12 else 0.8) * 500


def same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return fingerprint(from_mapping(one)) == fingerprint(from_mapping(other))


def test_length_seed_and_learning_rate_do_not_make_another_workload() -> None:
    script = {"script": "train.py", "args": ["--batch-size", "32", "--epochs", "3", "--seed=1"]}
    longer = {
        "script": "train.py",
        "args": ["--batch-size", "32", "--epochs", "90", "--seed=2", "--lr", "0.1"],
    }
    assert same(script, longer)
    config = {"model": "yolo11n", "batch_size": 16}
    assert same({"trainer": "yolo", "config": {**config, "epochs": 3}}, {"trainer": "yolo", "config": config})
    assert same({"command": "python t.py epochs=3 model=a"}, {"command": "python t.py epochs=9 model=a"})


@pytest.mark.parametrize(
    "other",
    [
        {"script": "train.py", "args": ["--batch-size", "64"]},
        {"script": "other.py", "args": ["--batch-size", "32"]},
        {"script": "train.py", "args": ["--batch-size", "32"], "dataset": "data/other"},
        {"script": "train.py", "args": ["--batch-size", "32"], "workdir": {"path": "elsewhere"}},
        {"trainer": "yolo", "config": {"batch_size": 32}},
    ],
)
def test_batch_script_data_and_directory_make_another_workload(other: dict[str, object]) -> None:
    assert not same({"script": "train.py", "args": ["--batch-size", "32"]}, other)


def test_a_flag_without_a_value_takes_no_other_option_with_it() -> None:
    assert not same(
        {"script": "t.py", "args": ["--seed", "--model", "a"]},
        {"script": "t.py", "args": ["--seed", "--model", "b"]},
    )


def test_a_script_is_the_same_workload_from_whatever_directory_it_is_started() -> None:
    here = {"script": "train.py", "workdir": {"path": "/home/me/proj"}}
    for path, script in (
        ("/home/me", "proj/train.py"),
        ("/tmp", "/home/me/proj/train.py"),
        ("/x", "../proj/train.py"),
    ):
        assert same(here, {"script": script, "workdir": {"path": path}})
    assert same(here, {"script": "train.py", "workdir": {"path": "/home/me/proj", "snapshot": True}})
    assert not same(here, {"script": "other/train.py", "workdir": {"path": "/home/me/proj"}})


def test_files_without_a_directory_are_the_same_workload_only_if_they_are_equal() -> None:
    def uploaded(manifest: str) -> dict[str, object]:
        return {"script": "train.py", "workdir": {"snapshot": True, "manifest": manifest * 64}}

    assert same(uploaded("a"), uploaded("a"))
    assert not same(uploaded("a"), uploaded("b"))
    assert not same(uploaded("a"), {"script": "train.py", "workdir": {"snapshot": True}})
    assert not same(uploaded("a"), {"script": "train.py"})


def test_a_machine_that_cannot_be_compared_gets_a_rough_time() -> None:
    spec = from_mapping({"script": "train.py"})
    assert rough_duration(spec, []) is None
    rough = rough_duration(spec, [past(2.5)])
    assert rough is not None
    assert rough.expected == pytest.approx(2.5)
    assert rough.high / rough.low > 10
    offer = Offer(backend="cloud", gpu_kind="T4", gpu_count=1, price_microusd_per_hour=1)
    (line,) = rank(spec, [Candidate(offer=offer)], rough_duration=rough).ranked
    assert (line.basis, line.confidence) == ("history", "low")
    assert line.bill.wall_s.expected < 200
