"""Trainings on several GPUs, here as processes on the CPU that gloo connects."""

import csv
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainers import shapes
from tests.trainers.comparing import left_behind
from tests.trainers.pictures import draw_folder
from tests.trainers.processes import child_with_rank, is_running

from anygpu.testing.training_process import TrainingProcess
from anygpu.trainers import BadConfig, registry

pytestmark = pytest.mark.timeout(900)  # minutes when the machine is busy
SCRIPT = Path(__file__).with_name("gradients_of_ranks.py")
WORDS = ("the cat", "a dog", "sees", "likes", "the river", "a door", "and", "then")
STEPS = 12
GPT: dict[str, Any] = {
    "model": "gpt-nano",
    "epochs": 2,
    "steps_per_epoch": STEPS,
    "batch_size": 8,
    "accumulate": 2,
    "block_size": 32,
    "dropout": 0.0,
    "learning_rate": 5e-3,
    "threads": 1,
    "device": "cpu",
    "export": [],
    "checkpoint_every_s": 0,
}


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "sentences.txt"
    path.write_text(" ".join(chance.choices(WORDS, k=3000)))
    return path


def gpt(sentences: Path, processes: int, **settings: Any) -> TrainingProcess:
    return TrainingProcess(
        trainer="nanogpt", dataset=sentences, settings={**GPT, **settings}, processes=processes
    )


@pytest.fixture
def started() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes that are killed when the test ends."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for each in processes:
        each.kill()
        each.wait()


def run_step(sentences: Path, output: Path, processes: int) -> list[dict[str, Any]]:
    """Train one step in each of `processes` processes, and return their gradients and weights."""
    output.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.getsockname()[1])}
    processes_of_ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(sentences), str(output)],
            env={**os.environ, **address, "RANK": str(rank), "WORLD_SIZE": str(processes)},
        )
        for rank in range(processes)
    ]
    assert [each.wait(timeout=300) for each in processes_of_ranks] == [0] * processes
    return [torch.load(output / f"rank{rank}.pt") for rank in range(processes)]


def test_the_gradients_of_all_ranks_are_those_of_one_process(sentences: Path, tmp_path: Path) -> None:
    (alone,) = run_step(sentences, tmp_path / "one", 1)
    first, second = run_step(sentences, tmp_path / "two", 2)
    assert first.keys() == second.keys() == alone.keys()
    assert first.pop("loss") == second.pop("loss") == pytest.approx(alone.pop("loss"), rel=1e-6)
    for name, value in first.items():
        assert torch.equal(value, second[name]), f"{name} differs between the ranks"
        assert torch.allclose(value, alone[name], rtol=1e-4, atol=1e-6), f"{name} differs from one process"


def test_two_processes_train_as_one_does(sentences: Path, tmp_path: Path) -> None:
    one = gpt(sentences, 1).run(tmp_path / "one")
    two = gpt(sentences, 2).run(tmp_path / "two")
    assert two["samples_sha256"] == one["samples_sha256"]
    for epoch, same in zip(two["history"], one["history"], strict=True):
        assert epoch == pytest.approx(same, rel=1e-4)
    assert (tmp_path / "two" / "sample.txt").exists()
    assert (tmp_path / "two" / "stderr.txt").read_text().count("done after 2 epochs") == 1


def test_killed_and_resumed_two_processes_end_bit_for_bit_the_same(sentences: Path, tmp_path: Path) -> None:
    training = gpt(sentences, 2, dropout=0.1)
    whole = left_behind(tmp_path / "whole", training.run(tmp_path / "whole"))
    training.run_until(tmp_path / "killed", STEPS + 5)
    result = training.run(tmp_path / "killed", resume=True)
    assert result["first_step"] > 2
    assert left_behind(tmp_path / "killed", result) == whole


def test_a_training_resumes_with_another_number_of_processes(sentences: Path, tmp_path: Path) -> None:
    one = gpt(sentences, 1).run(tmp_path / "one")
    gpt(sentences, 2).run_until(tmp_path / "changed", STEPS + 3)
    changed = gpt(sentences, 1).run(tmp_path / "changed", resume=True)
    assert changed["first_step"] > 2
    assert changed["samples_sha256"] == one["samples_sha256"]
    assert changed["history"][-1] == pytest.approx(one["history"][-1], rel=1e-4)


def test_a_killed_rank_ends_all_with_the_reason(
    sentences: Path, tmp_path: Path, started: list["subprocess.Popen[bytes]"]
) -> None:
    command = [sys.executable, "-m", "anygpu.trainers", "nanogpt", json.dumps({**GPT, "epochs": 10_000})]
    command += ["--dataset", str(sentences), "--output", str(tmp_path), "--processes", "2", "--json"]
    training = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    started.append(training)
    assert training.stdout is not None
    assert training.stdout.readline().startswith(b'{"type": "progress"')
    ranks = {rank: child_with_rank(training.pid, rank) for rank in (0, 1)}
    os.kill(ranks[1], signal.SIGKILL)
    _, errors = training.communicate(timeout=300)
    assert training.returncode == 128 + signal.SIGKILL
    assert b"rank 1 failed (killed by SIGKILL)" in errors
    assert not any(is_running(pid) for pid in ranks.values())


def test_the_ranks_end_with_the_process_that_started_them(sentences: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "anygpu.trainers", "nanogpt", json.dumps({**GPT, "epochs": 10_000})]
    command += ["--dataset", str(sentences), "--output", str(tmp_path), "--processes", "2", "--json"]
    training = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert training.stdout is not None
    training.stdout.readline()
    ranks = [child_with_rank(training.pid, rank) for rank in (0, 1)]
    training.kill()
    training.wait()
    training.stdout.close()
    end = time.monotonic() + 120
    while any(is_running(pid) for pid in ranks):
        assert time.monotonic() < end, "a rank still runs"
        time.sleep(0.05)


def test_a_classifier_learns_with_two_processes(tmp_path: Path) -> None:
    pictures = draw_folder(tmp_path / "pictures", each=40)
    settings = {"epochs": 5, "batch_size": 16, "image_size": 32, "threads": 1, "device": "cpu", "export": []}
    one, two = (
        TrainingProcess(
            trainer="torch-classifier", dataset=pictures, settings=settings, processes=processes
        ).run(tmp_path / str(processes))
        for processes in (1, 2)
    )
    assert two["samples_sha256"] == one["samples_sha256"]
    assert two["metrics"]["accuracy"] >= 0.8  # batch normalisation uses the part of each rank
    assert two["history"][-1]["loss"] < two["history"][0]["loss"]


def test_a_transformer_trains_with_two_processes_as_with_one(tmp_path: Path) -> None:
    opinions, chance = tmp_path / "opinions.csv", random.Random(1)
    with opinions.open("w", newline="") as file:
        rows = [["text", "label"]]
        for number in range(80):
            tone = ("fine", "lovely", "warm") if number % 2 else ("awful", "dull", "cold")
            rows.append([" ".join(chance.sample((*WORDS, *tone), 6)), "good" if number % 2 else "bad"])
        csv.writer(file).writerows(rows)
    sizes = {"dim": 32, "hidden_dim": 64, "n_layers": 1, "n_heads": 2}
    quiet = dict.fromkeys(("dropout", "attention_dropout", "seq_classif_dropout"), 0.0)
    settings = {
        "epochs": 2,
        "batch_size": 8,
        "device": "cpu",
        "export": [],
        "model_config": {**sizes, **quiet},
    }
    training = {
        count: TrainingProcess(
            trainer="huggingface",
            dataset=opinions,
            settings={**settings, "checkpoint_every_s": 0},
            processes=count,
        )
        for count in (1, 2)
    }
    one, two = (training[count].run(tmp_path / f"hf{count}") for count in (1, 2))
    assert two["samples_sha256"] == one["samples_sha256"]
    for epoch, same in zip(two["history"], one["history"], strict=True):
        assert epoch == pytest.approx(same, rel=1e-4)
    training[2].run_until(tmp_path / "killed", 10)
    resumed = training[2].run(tmp_path / "killed", resume=True)
    assert resumed["first_step"] > 2
    assert resumed["history"][-1] == pytest.approx(two["history"][-1], rel=1e-4)


@pytest.mark.parametrize(
    ("trainer", "settings", "tolerance"),
    [
        ("rfdetr", {"model": "rf-detr-nano", "image_size": 64, "queries": 10, "groups": 1}, 0.01),
        # Each rank draws its own noise, and divides the loss by the boxes of its part.
        ("rtdetr", {"image_size": 64, "queries": 10}, 0.2),
    ],
)
def test_a_detector_trains_with_two_processes(
    trainer: str, settings: dict[str, Any], tolerance: float, tmp_path: Path
) -> None:
    dataset = shapes.yolo_dataset(tmp_path / "shapes", train=4, val=2)
    common = {"epochs": 1, "batch_size": 4, "device": "cpu", "threads": 1, "lr": 0.0003, "export": []}
    one, two = (
        TrainingProcess(
            trainer=trainer, dataset=dataset, settings={**common, **settings}, processes=processes
        ).run(tmp_path / str(processes))
        for processes in (1, 2)
    )
    assert two["samples_sha256"] == one["samples_sha256"]
    assert two["history"][0]["loss"] == pytest.approx(one["history"][0]["loss"], rel=tolerance)


@pytest.mark.parametrize(
    ("trainer", "settings", "reason"),
    [
        ("yolo", {"rect": True}, "rect: it puts images of one shape into a batch"),
        ("yolo", {"batch": 5}, "batch_size: the 2 GPUs share each batch, and 5 is not a multiple of 2"),
        ("tabular", {"target": "x"}, "cannot use 2 GPUs: it trains in one process"),
        (
            "nanogpt",
            {"batch_size": 7},
            "batch_size: the 2 GPUs share each batch, and 7 is not a multiple of 2",
        ),
        ("nanogpt", {"device": "cuda:1"}, "device: 'cuda:1' is one device, but the training uses 2 GPUs"),
    ],
)
def test_what_cannot_use_several_gpus_is_refused_with_the_reason(
    trainer: str, settings: dict[str, Any], reason: str
) -> None:
    kind = registry.find(trainer)
    with pytest.raises(BadConfig, match=reason.replace("(", r"\(")):
        kind.check_processes(kind.parse_settings(settings), 2)
    kind.check_processes(kind.parse_settings(settings), 1)


def test_a_stop_request_ends_all_ranks_after_the_same_step_with_a_checkpoint(
    sentences: Path, tmp_path: Path, started: list["subprocess.Popen[bytes]"]
) -> None:
    channel = tmp_path / "channel"
    channel.mkdir()
    command = [sys.executable, "-m", "anygpu.trainers", "nanogpt", json.dumps({**GPT, "epochs": 10_000})]
    command += ["--dataset", str(sentences), "--output", str(tmp_path / "out"), "--processes", "2"]
    env = {"ANYGPU_DIR": str(channel), "ANYGPU_CHECKPOINT_DIR": str(tmp_path / "work" / "checkpoints")}
    with (tmp_path / "errors.txt").open("wb") as errors:
        training = subprocess.Popen(command, env={**os.environ, **env}, stderr=errors)
        started.append(training)
    end = time.monotonic() + 300
    while not (channel / "points.jsonl").exists() or b"loss" not in (channel / "points.jsonl").read_bytes():
        assert training.poll() is None, (tmp_path / "errors.txt").read_text()
        assert time.monotonic() < end, "no step was reported"
        time.sleep(0.05)
    (channel / "stop").touch()
    saved = answer_checkpoints(channel, training)
    assert training.returncode == 0, (tmp_path / "errors.txt").read_text()
    assert saved
    assert (tmp_path / "errors.txt").read_text().count("stopped and saved") == 1
    steps = [point["s"] for point in read_points(channel) if "loss" in point.get("m", {})]
    assert steps == sorted(set(steps)), "more than one rank reported"


def read_points(channel: Path) -> list[dict[str, Any]]:
    lines = (channel / "points.jsonl").read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]  # the last line may be incomplete


def answer_checkpoints(channel: Path, training: "subprocess.Popen[bytes]") -> int:
    """Do as the agent does: remove each announced checkpoint when it is stored. Return how many there were."""
    end, seen = time.monotonic() + 300, 0
    while training.poll() is None:
        assert time.monotonic() < end, "the training does not stop"
        announced = [channel / point["c"]["snapshot"] for point in read_points(channel) if "c" in point]
        for path in (each for each in announced if each.is_dir()):
            shutil.rmtree(path)
            seen += 1
        time.sleep(0.05)
    return seen
