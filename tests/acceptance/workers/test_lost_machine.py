"""A machine that disappears with its worker and agent, and agents that do not obey."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.acceptance.workers.lab import Lab, assert_books_are_empty, attempt_name
from tests.contracts.backends.celery_workers import QUEUE, TestWorker, wait_until
from tests.walk import content_of, paths_below

from anygpu.agent.host import processes

pytestmark = [pytest.mark.extended, pytest.mark.timeout(400)]


def test_a_lost_machine_is_replaced_by_another(lab: Lab, undisturbed: str) -> None:
    worker = lab.worker("lab1")
    job = lab.submit(step_s=0.5)
    lab.wait_saved(job)
    other = lab.worker("lab2")
    worker.kill()
    processes.kill_attempt(attempt_name(job))
    lab.broker.client.delete(f"anygpu:{QUEUE}:worker:{worker.name}")  # as after 90 s
    ended = lab.wait_completed(job, within_s=200)
    assert [each["offer"] for each in ended["attempts"]] == ["cpu0@lab1", "cpu0@lab2"]
    assert lab.model(job) == undisturbed
    worker.start()  # it reads the order to end the attempt
    assert_books_are_empty(lab, worker, other)


REPORTING = """
import os, time
from pathlib import Path
import anygpu

if os.environ["ANYGPU_ATTEMPT"] == "1":
    number = 0
    while not Path({stop!r}).exists():
        print("line", number, flush=True)
        anygpu.log({{"loss": float(number)}}, step=number)
        number += 1
        time.sleep(0.01)
    print("the last line", flush=True)
    anygpu.log({{"end": 1.0}}, step=number)
    time.sleep(1000)
"""


def test_reports_that_were_unsent_when_the_machine_died_arrive_once_after_its_return(lab: Lab) -> None:
    worker, stop = lab.worker(), lab.folder / "stop"
    job = lab.server.submit(code=REPORTING.format(stop=str(stop)), python=sys.executable)
    wait_until(lambda: "line 50\n" in log_of_attempt(lab, job), what="the first reports")
    lab.server.kill()
    spool = next(path for path in paths_below(lab.folder) if path.name == attempt_name(job)) / "spool"
    before = size_of(spool)
    wait_until(lambda: size_of(spool) > before + 5_000, what="unsent reports")
    stop.touch()
    wait_until(lambda: has_all_reports(spool), what="the last reports")
    kill_machine(worker, attempt_name(job))
    lab.server.start()
    assert "the last line" not in log_of_attempt(lab, job)
    worker.start()
    wait_until(lambda: not spool.exists(), what="the end of the delivery")
    *lines, last = log_of_attempt(lab, job).splitlines()
    assert (lines, last) == ([f"line {number}" for number in range(len(lines))], "the last line")
    history = lab.server.ask("GET", f"training/{job}/metrics/history?attempt=1&name=loss&points=20000")
    assert history["attempts"][0]["series"][0]["steps"] == [*range(len(lines))]
    assert len(lab.wait_completed(job)["attempts"]) == 2
    assert_books_are_empty(lab, worker)


def log_of_attempt(lab: Lab, job: str) -> str:
    return lab.server.anygpu("logs", job, "--attempt", "1", code=None)


def content_of_spool(spool: Path) -> bytes:
    return b"".join(content_of(file) for file in sorted(spool.glob("*.frames")))


def has_all_reports(spool: Path) -> bool:
    content = content_of_spool(spool)
    return b"the last line" in content and b'"end"' in content


def size_of(spool: Path) -> int:
    return len(content_of_spool(spool))


def kill_machine(worker: TestWorker, attempt: str) -> None:
    """End the worker, the agent and the job at once with SIGKILL."""
    worker.kill()
    processes.kill_attempt(attempt)


def test_cancel_works_while_training_and_for_an_agent_that_hangs(lab: Lab) -> None:
    worker = lab.worker()
    job = lab.submit(steps=10_000)
    lab.wait_saved(job)
    lab.server.anygpu("cancel", job)
    assert lab.server.wait(job, "cancelled")["status"] == "cancelled"
    assert_books_are_empty(lab, worker)
    hanging = lab.submit(steps=10_000)
    lab.wait_saved(hanging)
    pids = processes.processes_by_attempt()[attempt_name(hanging)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    lab.server.anygpu("cancel", hanging)
    lab.server.wait(hanging, "cancelled", within_s=100)
    assert not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]
    assert_books_are_empty(lab, worker)
