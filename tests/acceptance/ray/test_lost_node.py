"""A Ray cluster with two nodes: a job whose node is lost continues on the other node."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.clusters.ray import RayCluster, lose_node, running_node, running_ray
from tests.acceptance.machines.cloud import BRISK, Server
from tests.acceptance.ray.test_jobs import backend_settings, list_records, submit, wait_until

from anygpu.agent.host import processes

pytestmark = [pytest.mark.extended, pytest.mark.timeout(300)]


@pytest.fixture
def two_nodes() -> Iterator[tuple[RayCluster, subprocess.Popen[bytes]]]:
    with (
        running_ray(gpus=1, resources={"accelerator_type:T4": 1}) as cluster,
        running_node(cluster, gpus=1, resources={"accelerator_type:A100": 1}) as node,
    ):
        yield cluster, node


def test_a_job_continues_on_another_node_when_its_node_is_lost(
    tmp_path: Path, two_nodes: tuple[RayCluster, subprocess.Popen[bytes]]
) -> None:
    cluster, node = two_nodes
    settings = backend_settings(
        tmp_path, cluster, gpu_prices="A100=50000"
    )  # so the job starts on the second node
    server = Server(tmp_path, settings, **BRISK)
    try:
        job = submit(server, gpu=1)
        running = server.until(
            job, lambda found: (found["checkpoint"] or {"step": 0})["step"] >= 20, within_s=60
        )
        assert running["place"]["gpu"] == "A100"
        name = running["attempts"][0]["name"]
        lose_node(node)
        processes.kill_attempt(name)
        ended = server.wait(job, "completed", "failed", within_s=180)
        assert ended["status"] == "completed", ended["failure"]
        assert [attempt["offer"] for attempt in ended["attempts"]] == ["1xA100-2cpu", "1xT4-2cpu"]
        resumed = [event["data"] for event in server.events(job) if event["type"] == "AttemptLaunching"][1]
        assert resumed["resume"]["step"] >= 20
        (lost,) = [event["data"] for event in server.events(job) if event["type"] == "AttemptLost"]
        assert "The node of the job, or Ray's process there, was lost" in lost["evidence"]
        wait_until(lambda: not list_records(cluster, name.rpartition("-")[0]))
    finally:
        server.stop()
