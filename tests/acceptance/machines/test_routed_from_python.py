"""Code that a program submits with its needs: it runs on the cheapest machine that has them, and is watched there."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.machines.cloud import Cloud, Server, at_ec2

from anygpu import MLPlatform, Requirements
from anygpu.sdk import Job, Status

TRAIN = """
from pathlib import Path
import anygpu

for epoch in range(1, 4):
    anygpu.log(loss=1 / epoch, step=epoch)
    Path("state.txt").write_text(str(epoch))
    anygpu.checkpoint("state.txt", step=epoch)
Path("model.pt").write_bytes(b"weights")
anygpu.best("model.pt")
print("trained", flush=True)
"""
REQUIREMENTS = Requirements(
    gpu_memory_gb=16,
    duration_hours_estimated=3,
    checkpoint_frequency_minutes=30,
    interruptible=True,
    max_cost_usd=10.00,
)
PREFERENCES = {"optimize_for": "cost", "allowed_backends": None}


@pytest.fixture
def rented(tmp_path: Path) -> Iterator[tuple[Cloud, Server]]:
    with at_ec2(tmp_path, ssh_port=2331) as both:
        yield both


def connect(server: Server) -> MLPlatform:
    return MLPlatform(f"http://127.0.0.1:{server.port}", (server.state / "token").read_text().strip())


async def watched(job: Job) -> list[Status]:
    return [status async for status in job.monitor()]


def test_code_with_needs_runs_on_a_machine_that_has_them(
    rented: tuple[Cloud, Server], tmp_path: Path
) -> None:
    cloud, server = rented
    platform = connect(server)
    best = platform.recommend_backend(TRAIN, PREFERENCES, requirements=REQUIREMENTS)
    ec2 = next(each for each in best if each.backend == "ec2")
    assert ec2.configured
    assert 0 < ec2.cost_estimate.hourly <= ec2.cost_estimate.total <= 10
    assert [each.score for each in best] == sorted((each.score for each in best), reverse=True)

    job = platform.submit(
        code=TRAIN, requirements=REQUIREMENTS, preferences=PREFERENCES, python=sys.executable
    )
    last = asyncio.run(watched(job))[-1]
    assert (last.status, last.backend) == ("completed", "ec2"), last
    assert last.cost > 0
    status = platform.get_unified_status(job.id)
    assert (status.id, status.cost_so_far, status.logs[-1]) == (job.id, last.cost, "trained")
    models = [path for path in job.fetch(tmp_path / "home") if path.name == "model.pt"]
    assert {path.read_bytes() for path in models} == {b"weights"}
    assert len(cloud.of(job.id)) == 1
    assert not cloud.running()
    platform.client.close()
