"""Jobs on several machines: all ranks start or none, one rank's end stops all, and all resume together."""

import asyncio
import json
import os
import signal
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.acceptance.machines.cloud import Server
from tests.acceptance.machines.host_group import expected_sum, open_host_group

pytestmark = pytest.mark.timeout(300)


async def test_two_ranks_work_together_and_the_job_completes(server: Server, tmp_path: Path) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        lab.let_finish()
        job_id = await lab.submit(2)
        await lab.wait_ended(job_id, "completed")
        assert (await lab.result(job_id))["sum"] == expected_sum(2, 10)
        assert [name[-2:] for name in lab.started_attempts()] == ["-1", "n1"]
        logs = await asyncio.to_thread(server.anygpu, "logs", job_id, "--all-ranks")
        first, second = logs.split("==> rank 1")
        assert first.startswith("==> rank 0 on ")
        total = expected_sum(2, 10)
        assert f"rank 0 sum {total}" in first
        assert f"rank 1 sum {total}" in second
        assert f"rank 1 sum {total}" in await asyncio.to_thread(
            server.anygpu, "logs", job_id, "--rank", "1", "-n", "1"
        )
        wrong = await asyncio.to_thread(server.anygpu, "logs", job_id, "--rank", "2", code=2)
        assert "its ranks are 0 to 1" in wrong
        metrics = await lab.ask("GET", f"training/{job_id}/metrics")
        assert [series["count"] for series in metrics["series"] if series["name"] == "total"] == [10]


async def test_a_killed_rank_stops_all_and_all_resume(server: Server, tmp_path: Path) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        job_id = await lab.submit(2, steps=20)
        await lab.pid_of(1, 0)
        await lab.wait_until(job_id, lambda job: (job["checkpoint"] or {}).get("step", 0) >= 5)
        os.kill(await lab.pid_of(1, 1), signal.SIGKILL)
        await lab.pid_of(2, 1)
        lab.let_finish()
        job = await lab.wait_ended(job_id, "completed")
        assert (await lab.result(job_id))["sum"] == expected_sum(2, 20)
        first, second = job["attempts"]
        assert (first["signal"], second["exit_code"]) == (9, 0)
        assert [node["state"] for node in first["nodes"]] == ["ended", "ended"]
        assert job["resume"]["state"] == "verified"


async def test_a_gang_that_cannot_be_had_whole_starts_nothing_and_says_why(
    server: Server, tmp_path: Path
) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        with pytest.raises(HTTPError) as refused:
            await lab.submit(3)
        assert "3 machines (resources.nodes)" in json.load(refused.value)["detail"]
        single = await lab.submit(1, code="import time; time.sleep(600)")
        await lab.wait_until(single, lambda job: job["phase"] == "training")
        waiting = await lab.submit(2)
        job = await lab.wait_until(waiting, lambda job: bool(job["reason"]))
        assert "1 of the 2 machines that the job needs are free" in job["reason"]
        assert len(lab.started_attempts()) == 1
        for job_id in (waiting, single):
            await lab.ask("POST", f"training/{job_id}/cancel", {})
            await lab.wait_ended(job_id, "cancelled")


@pytest.mark.extended
async def test_two_gangs_that_need_the_same_hosts_run_one_after_the_other(
    server: Server, tmp_path: Path
) -> None:
    async with open_host_group(server, tmp_path, 3) as lab:
        lab.let_finish()
        jobs = [await lab.submit(2) for _ in range(3)]
        for job_id in jobs:
            await lab.wait_ended(job_id, "completed")


async def test_a_cancel_reaches_every_node(server: Server, tmp_path: Path) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        job_id = await lab.submit(2)
        pids = [await lab.pid_of(1, rank) for rank in (0, 1)]
        await lab.ask("POST", f"training/{job_id}/cancel", {})
        (attempt,) = (await lab.wait_ended(job_id, "cancelled"))["attempts"]
        assert attempt["outcome"] == "cancelled"
        assert [node["state"] for node in attempt["nodes"]] == [
            "ended",
            "ended",
        ]  # none was killed by the server
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def test_a_dead_agent_of_one_node_stops_all_and_all_resume(server: Server, tmp_path: Path) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        job_id = await lab.submit(2, steps=20)
        await lab.wait_until(job_id, lambda job: (job["checkpoint"] or {}).get("step", 0) >= 5)
        (agent,) = lab.hosts[1].home.glob(".anygpu/attempts/*/anygpu-*/agent.json")
        os.kill(json.loads(agent.read_text())["pid"], signal.SIGKILL)
        await lab.pid_of(2, 1)
        lab.let_finish()
        await lab.wait_ended(job_id, "completed")
        assert (await lab.result(job_id))["sum"] == expected_sum(2, 20)


@pytest.mark.extended
async def test_a_restarted_server_finds_its_gang_again(server: Server, tmp_path: Path) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        job_id = await lab.submit(2)
        await lab.pid_of(1, 1)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        lab.let_finish()
        job = await lab.wait_ended(job_id, "completed")
        assert len(job["attempts"]) == 1


@pytest.mark.extended
async def test_a_gang_that_reaches_its_time_limit_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        job_id = await lab.submit(2, limits={"timeout": "5s"})
        job = await lab.wait_ended(job_id, "failed")
        assert (job["failure"]["code"], len(job["attempts"])) == ("timeout", 1)
        events = (await lab.ask("GET", f"training/{job_id}/events"))["events"]
        stops = [event["data"]["reason"] for event in events if event["type"] == "StopRequested"]
        assert stops == ["timeout"]
