"""The same job on Celery workers, interrupted in every way: it completes, with the model of an undisturbed run."""

import json
import os
import signal
import time

import pytest
from tests.acceptance.workers.lab import Lab, agent_pid, assert_books_are_empty, attempt_name, evidence
from tests.contracts.backends.celery_workers import QUEUE, wait_until

from anygpu.agent.host import processes
from anygpu.backends.celery.backend import CeleryBackend
from anygpu.backends.celery.messages import StartMessage
from anygpu.backends.celery.options import CeleryOptions

pytestmark = [pytest.mark.extended, pytest.mark.timeout(400)]


def test_a_killed_worker_does_not_interrupt_the_job(lab: Lab, undisturbed: str) -> None:
    worker = lab.worker()
    job = lab.submit(step_s=0.2)
    lab.wait_saved(job)
    worker.kill()
    time.sleep(1)
    worker.start()
    ended = lab.wait_completed(job)
    assert (len(ended["attempts"]), lab.model(job)) == (1, undisturbed)
    assert_books_are_empty(lab, worker)


@pytest.mark.parametrize("keep_data", [True, False], ids=["with its data", "without its data"])
def test_a_restarted_broker_does_not_interrupt_the_job(lab: Lab, undisturbed: str, keep_data: bool) -> None:
    worker = lab.worker()
    job = lab.submit(step_s=0.5)
    lab.wait_saved(job)
    lab.broker.stop(keep_data=keep_data)
    time.sleep(3)
    assert lab.server.job(job)["status"] == "running"
    lab.broker.start()
    ended = lab.wait_completed(job)
    assert (len(ended["attempts"]), lab.model(job)) == (1, undisturbed)
    assert_books_are_empty(lab, worker)


def test_a_killed_server_finds_its_job_on_the_worker_again(lab: Lab, undisturbed: str) -> None:
    worker = lab.worker()
    job = lab.submit(step_s=0.1)
    lab.wait_saved(job)
    lab.server.kill()
    time.sleep(1)
    lab.server.start()
    ended = lab.wait_completed(job)
    assert (len(ended["attempts"]), lab.model(job)) == (1, undisturbed)
    assert_books_are_empty(lab, worker)


def test_a_job_that_ends_while_the_broker_is_down_completes_when_it_is_back(
    lab: Lab, undisturbed: str
) -> None:
    worker = lab.worker()
    job = lab.submit()
    lab.wait_saved(job)
    lab.broker.stop(keep_data=False)
    wait_until(lambda: attempt_name(job) not in processes.processes_by_attempt(), what="the agent's end")
    waiting = lab.submit(step_s=0)
    time.sleep(2)
    assert lab.server.job(job)["status"] in ("running", "completed")
    assert lab.server.job(waiting)["status"] in ("queued", "running")
    lab.broker.start()
    assert (len(lab.wait_completed(job)["attempts"]), lab.model(job)) == (1, undisturbed)
    lab.wait_completed(waiting)
    assert lab.model(waiting) == undisturbed
    assert_books_are_empty(lab, worker)


def test_a_killed_agent_is_replaced_at_once(lab: Lab, undisturbed: str) -> None:
    worker = lab.worker()
    job = lab.submit(step_s=0.4)
    lab.wait_saved(job)
    os.kill(agent_pid(attempt_name(job)), signal.SIGKILL)
    ended = lab.wait_completed(job)
    assert len(ended["attempts"]) == 2
    assert "the agent on cpu0@lab1 was killed by signal 9" in evidence(lab, job)
    assert lab.model(job) == undisturbed
    assert_books_are_empty(lab, worker)


def test_a_worker_that_is_stopped_lets_its_job_end_and_takes_no_other(lab: Lab, undisturbed: str) -> None:
    worker = lab.worker()
    job = lab.submit(step_s=0.2)
    lab.wait_saved(job)
    worker.process.send_signal(signal.SIGTERM)
    wait_until(lambda: (lab.broker.report(worker.name) or {}).get("draining"), what="draining")
    next_job = lab.submit(step_s=0)
    assert worker.process.wait(60) == 0
    other = lab.worker("lab2")
    assert (len(lab.wait_completed(job)["attempts"]), lab.model(job)) == (1, undisturbed)
    assert lab.wait_completed(next_job)["attempts"][0]["offer"] == "cpu0@lab2"
    assert_books_are_empty(lab, other)


def test_a_drained_worker_hands_its_job_over_to_another_machine(lab: Lab, undisturbed: str) -> None:
    worker = lab.worker("lab1", "--drain", "0s")
    job = lab.submit(step_s=0.5)
    lab.wait_saved(job)
    other = lab.worker("lab2")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(60) == 0
    ended = lab.wait_completed(job)
    assert [each["offer"] for each in ended["attempts"]] == ["cpu0@lab1", "cpu0@lab2"]
    assert lab.model(job) == undisturbed
    assert_books_are_empty(lab, other)


def test_a_message_that_died_with_its_worker_is_sent_again(lab: Lab) -> None:
    worker = lab.worker()
    os.kill(worker.process.pid, signal.SIGSTOP)
    job = lab.submit(step_s=0)
    wait_until(
        lambda: "AttemptLaunched" in [each["type"] for each in lab.server.events(job)], what="the launch"
    )
    worker.kill()
    lab.broker.client.delete(f"{QUEUE}.{worker.name}")  # if the worker had not read it yet
    worker.start()
    assert len(lab.wait_completed(job)["attempts"]) == 2
    assert "cpu0@lab1 was restarted and does not run the attempt" in evidence(lab, job)
    assert_books_are_empty(lab, worker)


async def test_a_message_that_is_delivered_to_a_second_worker_starts_nothing(
    lab: Lab, undisturbed: str
) -> None:
    lab.worker("lab1")
    job = lab.submit(step_s=0.6)
    lab.wait_saved(job)
    other = lab.worker("lab2")
    (ticket,) = lab.folder.glob(f"lab1/workers/cpu0/attempts/*/{attempt_name(job)}/ticket.json")
    message = StartMessage(
        name=attempt_name(job), owner=ticket.parent.parent.name, ticket=json.loads(ticket.read_text())
    )
    backend = CeleryBackend("lab", CeleryOptions(broker=lab.broker.url), secret=b"")
    await backend._send(message, other.name)
    await backend.close()
    log = other.root / "log"
    wait_until(
        lambda: "another agent has the attempt" in log.read_text(), what="the refusal of the second agent"
    )
    assert (len(lab.wait_completed(job)["attempts"]), lab.model(job)) == (1, undisturbed)
    claims = [each for each in lab.server.events(job) if each["type"] == "AttemptClaimed"]
    assert len(claims) == 1
