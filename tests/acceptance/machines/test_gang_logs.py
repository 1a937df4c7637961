"""The output of a job on several machines: one log for each machine, read, followed and searched."""

import asyncio
import json
from pathlib import Path
from urllib.error import HTTPError

import pytest
from tests.acceptance.machines.cloud import Server
from tests.acceptance.machines.host_group import expected_sum, open_host_group

pytestmark = pytest.mark.timeout(300)


@pytest.mark.extended
async def test_every_node_is_followed_searched_and_read_by_its_number(server: Server, tmp_path: Path) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:

        async def logs(*words: str, code: int = 0) -> str:
            return await asyncio.to_thread(lambda: server.anygpu("logs", job_id, *words, code=code))

        job_id = await lab.submit(2)
        await lab.pid_of(1, 1)
        assert "node 2" in await logs("-f", "--node", "2", code=66)
        followed = asyncio.gather(logs("-f", "--node", "1"), logs("-f", "--rank", "1", "-n", "2"))
        together = asyncio.gather(logs("-f", "--all-ranks"), logs("-f", "--node", "1", "--json"))
        shown = await asyncio.to_thread(server.anygpu, "show", job_id)
        assert "running" in shown[shown.index("NODE") :]
        lab.let_finish()
        await lab.wait_ended(job_id, "completed")
        total = expected_sum(2, 10)
        whole, by_rank = await followed
        assert whole.splitlines() == ["rank 1 of 2 starts at step 0", f"rank 1 sum {total}"]
        assert by_rank.splitlines() == whole.splitlines()
        lines, messages = await together
        assert sorted(lines.splitlines()) == [
            f"node {node} | rank {node} {text}"
            for node in (0, 1)
            for text in ("of 2 starts at step 0", f"sum {total}")
        ]
        assert {json.loads(line)["node"] for line in messages.splitlines()} == {1}

        assert (await logs("--node", "1", "-n", "1")).strip() == f"rank 1 sum {total}"
        assert (await logs("--node", "1", "--grep", "SUM")).strip() == f"2:rank 1 sum {total}"
        assert "No line matches." in await logs("--node", "1", "--grep", "rank 0", code=1)
        stored = json.loads(await logs("--node", "1", "--json"))
        assert (stored["attempt"], stored["node"], stored["text"]) == (1, 1, whole)
        tails = await logs("--all-ranks", "-n", "1")
        assert f"rank 0 sum {total}\n==> rank 1 on" in tails
        hits = await logs("--all-ranks", "--grep", "sum")
        assert f"2:rank 0 sum {total}\n==> rank 1 on" in hits
        assert "its nodes are 0 to 1" in await logs("--node", "2", code=66)
        assert "Give only one of" in await logs("--node", "1", "--rank", "1", code=2)
        ended = await asyncio.to_thread(server.anygpu, "show", job_id)
        assert [line.split()[0] for line in ended[ended.index("NODE") :].splitlines()[1:]] == ["0", "1"]


@pytest.mark.extended
async def test_the_routes_select_a_node_and_refuse_one_that_does_not_exist(
    server: Server, tmp_path: Path
) -> None:
    async with open_host_group(server, tmp_path, 2) as lab:
        lab.let_finish()
        job_id = await lab.submit(2)
        await lab.wait_ended(job_id, "completed")
        page = await lab.ask("GET", f"training/{job_id}/logs/lines?node=1")
        assert page["lines"][0]["text"] == "rank 1 of 2 starts at step 0"
        found = await lab.ask("GET", f"training/{job_id}/logs/search?node=1&q=rank")
        assert found["total"] == 2
        routes = ("logs", "logs/lines", "logs/file", "logs/search?q=x", "telemetry", "stream")
        for path in routes:
            with pytest.raises(HTTPError) as refused:
                await lab.ask("GET", f"training/{job_id}/{path}{'&' if '?' in path else '?'}node=2")
            assert refused.value.code == 404
            assert "has no node 2; its nodes are 0 to 1" in json.load(refused.value)["detail"]
