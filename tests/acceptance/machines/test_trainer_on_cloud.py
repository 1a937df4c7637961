"""A trainer's job on a rented machine that is taken back: it goes on at another, and the model comes home."""

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.machines.cloud import Cloud, Server

EPOCHS = 60


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = Cloud(tmp_path, "--boot", "1s", "--ssh-port", "2325")
    yield made
    made.stop()


@pytest.fixture
def server(tmp_path: Path, cloud: Cloud) -> Iterator[Server]:
    made = Server(tmp_path, cloud.settings(ec2={"regions": ["us-east-1"]}))
    yield made
    made.stop()


def flowers(path: Path) -> None:
    chance = random.Random(1)
    kinds = {"rose": 3.0, "lily": 5.0, "iris": 1.0}
    rows = [(chance.gauss(size, 0.5), name) for name, size in kinds.items() for _ in range(400)]
    path.write_text("petal,species\n" + "".join(f"{size:.3f},{name}\n" for size, name in rows))


@pytest.mark.slow
@pytest.mark.extended
def test_a_trainer_goes_on_at_another_machine_and_its_model_comes_home(
    cloud: Cloud, server: Server, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    flowers(work / "flowers.csv")
    settings = ["--set", "target=species", "-c", "model=mlp", "-c", "batch_size=8", "-c", "export=[]"]
    trainer = ["--trainer", "tabular", "--dataset", "flowers.csv", *settings, "--set", f"epochs={EPOCHS}"]
    server.anygpu(
        "run",
        "-d",
        "--paid",
        "--name",
        "flowers",
        "--python",
        sys.executable,
        "-c",
        "checkpoint_every_s=0.5",
        *trainer,
        cwd=work,
    )
    (job,) = server.ask("GET", "training")["jobs"]
    taken_back(cloud, server, job["id"])
    ended = server.wait(job["id"], "completed", "failed", within_s=250)
    assert (ended["status"], len(ended["attempts"])) == ("completed", 2), ended["failure"]
    assert ended["progress"]["epoch"] == EPOCHS
    assert ended["metrics"]["accuracy"] > 0.8
    server.anygpu("fetch", "flowers", "--model", cwd=work)
    assert [path.suffix for path in work.glob("model_tabular_*")] == [".joblib"]
    assert not cloud.running()


def taken_back(cloud: Cloud, server: Server, job_id: str) -> None:
    """Once it has trained for a while, and saved."""
    end = time.monotonic() + 60
    while not server.job(job_id)["checkpoint"]:
        assert time.monotonic() < end, server.job(job_id)
        time.sleep(0.1)
    (machine,) = cloud.running()
    cloud.ask(f"preempt/{machine['id']}", {"notice_s": 0})
