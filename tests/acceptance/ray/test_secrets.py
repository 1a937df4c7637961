"""Whoever may use a Ray cluster sees no secret of a job. The ticket in the record of its Ray job works only once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.clusters.ray import RayCluster
from tests.acceptance.machines.cloud import BRISK, Server
from tests.acceptance.machines.secret_traces import (
    agent_secrets,
    command_lines,
    find_words,
    native_request,
    readable_files,
    submit_with_secrets,
)
from tests.acceptance.ray.test_jobs import ask_ray

pytestmark = [pytest.mark.extended, pytest.mark.timeout(240)]
TOKEN = "marker-of-a-token-5b1d"


@pytest.fixture
def server(tmp_path: Path, cluster: RayCluster) -> Iterator[Server]:
    options = {"kind": "ray", "address": cluster.address, "directory": f"{tmp_path}/attempts", "token": TOKEN}
    lines = [f'{name} = "{value}"' for name, value in options.items()]
    made = Server(tmp_path, "\n".join(["[backends.lab]", *lines, ""]), **BRISK)
    yield made
    made.stop()


def test_what_ray_shows_has_no_secret(server: Server, cluster: RayCluster) -> None:
    job = submit_with_secrets(server, "lab")
    (work,) = (server.folder / "attempts").rglob("work.json")
    value, secret, ticket, token = agent_secrets(work.parent)
    name = work.parent.name
    record = str(ask_ray(cluster, "GET", f"/api/jobs/{name}"))
    logs = str(ask_ray(cluster, "GET", f"/api/jobs/{name}/logs"))
    assert name in record
    assert find_words(record + logs, [value, secret, token, TOKEN]) == []
    shown = command_lines() + native_request(server, "lab", server.folder)
    assert "entrypoint_num_cpus" in shown
    assert find_words(shown, [value, secret, ticket, token, TOKEN]) == []
    assert readable_files(work.parents[1], [value, secret, ticket, token]) == []
    server.anygpu("cancel", job)
    server.wait(job, "cancelled", within_s=60)
