"""Jobs with several nodes on a real Slurm: all nodes start or none, and they resume together."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from scripts.clusters.slurm import HIGH, SlurmCluster
from tests.clusters.slurm.product import Product, backend_settings, wait_until

pytestmark = pytest.mark.timeout(180)
RANKS = """
import json, os, socket, sys, time
from pathlib import Path
import anygpu

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))

def gather(value):
    "Return the sum over all ranks, through rank 0."
    if rank == 0:
        for _ in range(world - 1):
            peer, _ = server.accept()
            peers.append(peer)
            value += json.loads(peer.makefile().readline())
        while peers:
            peers.pop().sendall(b"%d\\n" % value)
        return value
    for _ in range(200):
        try:
            link = socket.create_connection(master, 5)
            break
        except OSError:
            time.sleep(0.1)
    link.sendall(b"%d\\n" % value)
    return json.loads(link.makefile().readline())

peers, server = [], None
if rank == 0:
    server = socket.create_server(("", master[1]))
resume = anygpu.resume_path()
start, total = json.loads(Path(resume).read_text()) if resume else (0, 0)
if resume:
    print(f"rank {rank} resumed at step {start}", flush=True)
for step in range(start + 1, 41):
    time.sleep(0.1)
    total += gather(rank + step)
    if rank == 0:
        anygpu.log({"total": total}, step=step)
    if step % 10 == 0:
        Path("state.json").write_text(json.dumps([step, total]))
        anygpu.checkpoint("state.json", step=step)
        time.sleep(0.5)
print(f"rank {rank} of {world}: {total}", flush=True)
"""
SLEEP = ("--wrap", "sleep 600")
TOTAL = sum(3 * step + 3 for step in range(1, 41))


def python_except_on_n2(folder: Path) -> Path:
    """Write a program that is Python on all nodes but one, which answers first."""
    program = folder / "python"
    fail = '[ "$SLURMD_NODENAME" != n2 ] || exit 1'
    program.write_text(f'#!/bin/sh\n{fail}\nsleep 1\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("nodes")
    settings = (
        backend_settings("gang", folder, partitions=[HIGH]),
        backend_settings("relayed", folder, partitions=[HIGH], relay="cluster"),
        backend_settings("limited", folder, partitions=[HIGH], max_run_s=600),
        backend_settings("broken", folder, partitions=[HIGH], python=str(python_except_on_n2(folder))),
    )
    made = Product(folder, cluster, "\n".join(settings))
    yield made
    made.server.stop()
    assert "Traceback" not in (log := (folder / "server.log").read_text()), log


def submit(product: Product, backend: str) -> str:
    return product.server.submit(
        code=RANKS,
        resources={"nodes": 3},
        checkpoint={"paths": ["state.json"]},
        placement={"allowed": [backend]},
    )


@pytest.mark.parametrize("backend", ["gang", "relayed"])
def test_the_nodes_of_a_job_find_each_other(product: Product, backend: str) -> None:
    job = submit(product, backend)
    ended = product.server.wait(job, "completed", "failed", within_s=90)
    assert ended["status"] == "completed", ended["failure"]
    assert f"rank 0 of 3: {TOTAL}" in product.server.anygpu("logs", job)
    product.wait_until_empty()


def test_all_nodes_resume_together_when_slurm_ends_the_job(product: Product) -> None:
    job = submit(product, "gang")
    product.wait_for_checkpoint(job)
    running = product.slurm_job(job)
    assert product.cluster.run("squeue", "-h", "-j", running, "-o", "%D").strip() == "3"
    product.cluster.run("scancel", running)
    ended = product.server.wait(job, "completed", "failed", within_s=120)
    assert (ended["status"], ended["attempt"]) == ("completed", 2), ended["failure"]
    log = product.server.anygpu("logs", job)
    assert f"rank 0 of 3: {TOTAL}" in log
    assert "rank 0 resumed at step" in log
    product.wait_until_empty()


def test_the_signal_before_the_time_limit_reaches_the_agents_and_ends_no_rank(product: Product) -> None:
    job = submit(product, "limited")
    product.wait_for_checkpoint(job)
    product.cluster.run("scancel", "--signal=URG", product.slurm_job(job))  # as --signal=URG does
    ended = product.server.wait(job, "completed", "failed", within_s=120)
    assert (ended["status"], ended["attempt"]) == ("completed", 2), ended["failure"]
    assert [(node["outcome"], node["exit_code"]) for node in first(ended)["nodes"]] == [("stopped", 0)] * 3
    assert all("time limit" in node["message"] for node in first(ended)["nodes"])
    assert product.codes(job) == ["preempt"]
    product.wait_until_empty()


def test_a_job_with_too_many_nodes_is_refused_with_the_reason(product: Product) -> None:
    spec = {"code": RANKS, "resources": {"nodes": 4}, "placement": {"allowed": ["gang"]}}
    with pytest.raises(HTTPError) as refused:
        product.server.ask("POST", "training", spec)
    text = json.loads(refused.value.read())["detail"]
    assert "3" in text, text
    assert product.cluster.jobs() == []


def test_a_job_with_several_nodes_starts_nothing_and_says_why_until_it_gets_all(product: Product) -> None:
    busy = product.cluster.run("sbatch", "--parsable", "-N", "1", "--exclusive", "-o", "/dev/null", *SLEEP)
    job = submit(product, "gang")
    waiting = product.server.until(job, lambda each: "waits in the queue" in each["reason"], within_s=60)
    assert waiting["phase"] == "provisioning"
    assert "Resources" in waiting["reason"]
    assert [node["state"] for node in waiting["attempts"][0]["nodes"]] == ["starting"] * 3
    assert product.cluster.run("squeue", "-h", "-t", "running", "-o", "%i").split() == busy.split()
    product.cluster.run("scancel", *busy.split())
    ended = product.server.wait(job, "completed", "failed", within_s=90)
    assert ended["status"] == "completed", ended["failure"]
    assert ended["reason"] == ""
    product.wait_until_empty()


def test_a_node_that_cannot_start_its_agent_lets_no_node_start(product: Product) -> None:
    job = submit(product, "broken")
    wait_until(lambda: product.codes(job) != [])
    product.server.anygpu("cancel", job)
    attempt = first(product.server.wait(job, "cancelled", within_s=60))
    assert product.codes(job)[0] == "no_python"
    assert "n2" in attempt["message"]
    assert attempt["training_at"] is None
    assert [node["state"] for node in attempt["nodes"]] == ["starting"] * 3
    product.wait_until_empty()


def first(job: dict[str, Any]) -> dict[str, Any]:
    attempt: dict[str, Any] = job["attempts"][0]
    return attempt
