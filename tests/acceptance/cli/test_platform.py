"""The Python client against a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anygpu.sdk import JobFailed, NotFinished, Platform, Requirements

COUNTING = """
import time
for n in range(1, 11):
    print(f'Epoch {n}/10 loss={1/n}', flush=True)
    time.sleep({pause})
"""


@pytest.fixture
def platform(served: dict[str, str]) -> Iterator[Platform]:
    made = Platform(state=served["ANYGPU_STATE"])
    yield made
    made.client.close()


def code(pause: float) -> str:
    return COUNTING.replace("{pause}", str(pause))


def test_a_plain_loop_sees_progress_metrics_and_the_end(platform: Platform) -> None:
    job = platform.submit(code=code(0.05), name="monitored")
    seen = list(job.monitor())
    assert seen[-1].status == "completed"
    assert seen[-1].progress == 100
    assert seen[-1].metrics["loss"] == 0.1
    assert seen[-1].backend == "local"
    assert [status.progress for status in seen] == sorted(status.progress for status in seen)


def test_an_async_loop_sees_the_same_and_can_be_left(platform: Platform) -> None:
    job = platform.submit(
        code=code(0.5), requirements=Requirements(max_cost_usd=1), preferences={"optimize_for": "cost"}
    )

    async def until_training() -> str:
        async for status in job.monitor():
            if status.phase == "training":
                return status.phase
        return "never"

    assert asyncio.run(asyncio.wait_for(until_training(), 20)) == "training"
    job.cancel()
    with pytest.raises(JobFailed) as raised:
        job.result(timeout_s=30)
    assert raised.value.job["status"] == "cancelled"


def test_a_result_waits_no_longer_than_asked(platform: Platform) -> None:
    job = platform.submit(code=code(0.5))
    with pytest.raises(NotFinished):
        job.result(timeout_s=0.3)
    job.cancel()


def test_a_failed_job_raises_with_its_failure(platform: Platform) -> None:
    job = platform.submit(code="raise SystemExit(5)")
    with pytest.raises(JobFailed, match="code 5") as raised:
        job.result(timeout_s=30)
    assert raised.value.failure["code"] == "exit_code"


def test_logs_metrics_and_files_come_back(platform: Platform, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(code(0.01) + "open('model.bin', 'w').write('weights')\n")
    job = platform.submit(script="t.py", workdir=tmp_path, outputs=["model.bin"])
    lines = list(job.logs(follow=True))
    assert lines == list(job.logs())
    assert lines[0] == "Epoch 1/10 loss=1.0"
    assert [line["text"] for line in job.log_lines(2, 2)] == lines[1:3]
    assert job.log_lines(-1)[0]["number"] == len(lines)
    assert [hit["number"] for hit in job.search_log("EPOCH 10/")] == [10]
    assert len(list(job.search_log(r"^Epoch \d/", regex=True))) == 9
    assert [value for _, _, value in job.metrics("loss")["loss"]] == pytest.approx(
        [1 / n for n in range(1, 11)]
    )
    assert [path.read_text() for path in job.fetch(tmp_path / "out")] == ["weights"]


def test_jobs_are_found_again(platform: Platform) -> None:
    job = platform.submit(code="print(1)", name="refound", tags=["sdk-tag"])
    job.result(timeout_s=30)
    assert platform.job("refound").id == job.id
    assert [each.id for each in platform.jobs(tag="sdk-tag")] == [job.id]
    status: Any = platform.job(job.id).status()
    assert status.done
