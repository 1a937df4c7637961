"""What goes wrong on rented machines: the person is told where and what to do, and no machine is left billing."""

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.machines.cloud import Cloud, Server

pytestmark = pytest.mark.timeout(280)
TRAINEE = Path(__file__).with_name("trainee.py").read_text()
HASTY = {"ready_s": 20, "ssh_s": 5, "bootstrap_s": 60}  # for machines that are given up
BRISK = {
    "ANYGPU_CONTROL__PAID_ATTEMPTS": "8",
    "ANYGPU_CONTROL__SAFETY_NET_S": "0.5",
    "ANYGPU_CONTROL__USEFUL_S": "3",
    "ANYGPU_CONTROL__STOP_ALLOWANCE_S": "6",
    "ANYGPU_CONTROL__END_ALLOWANCE_S": "3",
}
WRONG_KEYS: dict[str, dict[str, object]] = {
    "wrongec2": {"kind": "ec2", "secret_access_key": "wrong"},
    "wronglambda": {"kind": "lambda", "api_key": "wrong", "unattended": True},
    "wrongregion": {"kind": "ec2", "regions": ["mars-1"]},
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    made = Cloud(tmp_path_factory.mktemp("cloud"), "--boot", "0.4s", "--ssh-port", "2423")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cloud: Cloud) -> Iterator[Server]:
    settings = cloud.settings(
        ec2={"regions": ["us-east-1"], "meter": "cost-explorer", "meter_after_h": 0},
        hasty={"kind": "ec2", "regions": ["us-east-1"], **HASTY},
        runpod={"unattended": True},
        **WRONG_KEYS,
    )
    made = Server(tmp_path_factory.mktemp("server"), settings, **BRISK)
    made.anygpu("backend", "check", "ec2")  # so that no test waits for AWS's library to be read
    yield made
    made.stop()
    log = (made.folder / "server.log").read_text()
    assert "Traceback" not in log, log
    assert [entry for entry in cloud.ask("books") if entry["ended_at_ms"] is None] == []


@pytest.fixture(autouse=True)
def no_fault_outlives_its_test(cloud: Cloud) -> Iterator[None]:
    yield
    cloud.lift()


def submit(server: Server, name: str, on: str = "ec2", *, steps: int = 3, **more: Any) -> str:
    placement = {"allowed": [on], **more.pop("placement", {})}
    code = more.pop("code", f"import sys; sys.argv = ['trainee', '{steps}', '0.05']\n{TRAINEE}")
    return server.submit(code=code, name=name, python=sys.executable, placement=placement, **more)


def assert_settled(cloud: Cloud, job: dict[str, Any]) -> None:
    """Nothing of the job is billed any more, and its ledger is what the books say.

    RunPod shows nothing of a pod that is gone: its end is when it was first missing, a look later at most.
    """
    books = cloud.of(job["id"])
    assert [entry for entry in books if entry["ended_at_ms"] is None] == []
    unsure = sum(
        3 * entry["price_microusd_per_hour"] / 3600 for entry in books if entry["vendor"] == "runpod"
    )
    assert 0 <= job["cost_microusd"] - sum(entry["by_rule_microusd"] for entry in books) <= unsure


def cancelled(server: Server, cloud: Cloud, job_id: str) -> dict[str, Any]:
    server.ask("POST", f"training/{job_id}/cancel", {})
    job = server.wait(job_id, "cancelled")
    assert_settled(cloud, job)
    return job


def first(job: dict[str, Any]) -> str:
    """What is told of its first attempt."""
    return str(job["attempts"][0]["message"])


# -- refused before there is a machine ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "said", "advice"),
    [
        ("wrongec2", "us-east-1 answered", "Check the credentials (access key"),
        ("wronglambda", "Lambda answered", "Check the backend's `api_key` (or the variable LAMBDA_API_KEY)"),
        ("wrongregion", "mars-1", "that region mars-1 is enabled"),
    ],
)
def test_wrong_keys_and_regions_are_told_and_the_job_waits(
    server: Server, cloud: Cloud, backend: str, said: str, advice: str
) -> None:
    checked = server.anygpu("backend", "check", backend, code=1)
    assert checked.startswith(f"fail  {backend}  ")
    assert said in checked
    assert advice in checked
    job_id = submit(server, f"on-{backend}", backend)
    reason = server.until(job_id, lambda job: backend in (job["reason"] or ""))["reason"]
    assert said in reason
    assert advice in reason
    assert reason in server.anygpu("show", job_id)
    assert cancelled(server, cloud, job_id)["attempts"] == []


@pytest.mark.extended
def test_without_quota_the_job_waits_with_that_reason_and_goes_on_when_there_is_some(
    server: Server, cloud: Cloud
) -> None:
    only = {"instance_type": "m7i.xlarge", "interruptible": "no"}  # spot machines have a quota of their own
    fault = cloud.fault("quota", vendor="ec2", type="m7i.xlarge")
    job_id = submit(server, "no-quota", placement=only)
    job = server.until(job_id, lambda job: "VcpuLimitExceeded" in (job["reason"] or ""))
    assert "higher quota in Service Quotas of region us-east-1" in server.anygpu("show", job_id)
    assert (job["status"], job["cost_microusd"]) == ("queued", 0)
    cloud.lift(fault)
    assert_settled(cloud, server.wait(job_id, "completed"))


# -- machines that cannot be used --------------------------------------------------------------------------------


UNUSABLE = {
    "c7i.large": (
        "boot_hangs",
        "logging in: ",
        "does not answer over SSH: ",
        "no firewall or security group blocks the port",
    ),
    "c7i.xlarge": (
        "ssh_refused",
        "logging in: ",
        "does not answer over SSH: ",
        "its image starts an SSH server",
    ),
    "t3.medium": ("disk_full", "preparing the machine: ", "could not be installed: ", "Free some space"),
}


@pytest.mark.extended
def test_machines_that_cannot_be_used_are_ended_the_step_is_named_and_others_are_taken(
    server: Server, cloud: Cloud
) -> None:
    for kind, (fault, *_) in UNUSABLE.items():
        cloud.fault(fault, vendor="ec2", type=kind, times=1, bytes=20_000)
    jobs = {
        kind: submit(server, f"on-{kind}", "hasty", placement={"instance_type": kind}) for kind in UNUSABLE
    }
    for kind, (_, step, what, advice) in UNUSABLE.items():
        job = server.wait(jobs[kind], "completed")
        assert first(job).startswith(step)
        assert what in first(job)
        assert advice in server.anygpu("show", jobs[kind])
        assert len(job["attempts"]) == 2
        assert_settled(cloud, job)


def test_a_disk_that_fills_up_while_a_checkpoint_is_made_loses_nothing_saved_before(
    server: Server, cloud: Cloud
) -> None:
    job_id = submit(server, "full-later", steps=2000, placement={"instance_type": "t3.large"})
    server.until(job_id, lambda job: job["checkpoint"] is not None)
    cloud.ask(f"fill_disk/{cloud.of(job_id)[0]['id']}", {"bytes": 0})
    job = server.wait(job_id, "failed")
    assert "OSError: [Errno 27] File too large" in first(job)
    assert (job["failure"]["blame"], job["checkpoint"]["step"] >= 10) == ("user", True)
    assert_settled(cloud, job)


def test_a_disk_that_is_too_small_for_the_working_directory_is_told_with_what_to_do(
    server: Server, cloud: Cloud, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('never')\n")
    (tmp_path / "data.bin").write_bytes(random.Random(1).randbytes(6_000_000))
    cloud.fault("disk_full", vendor="ec2", times=1, bytes=3_000_000)
    told = server.anygpu("run", "-n", "too-big", "--on", "ec2", "train.py", code=1, cwd=tmp_path)
    assert "fetching the working directory: the disk is full" in told
    assert "Request more with resources.disk" in told
    job = server.job("too-big")
    assert (job["failure"]["code"], len(job["attempts"])) == ("failed_to_start", 1)
    assert_settled(cloud, job)


def test_a_requirement_that_does_not_install_is_the_users_and_never_tried_again(
    server: Server, cloud: Cloud
) -> None:
    job_id = submit(server, "no-such-package", requirements=["./no-such-package-in-the-working-directory"])
    job = server.wait(job_id, "failed")
    assert job["failure"]["message"].startswith("requirements: ")
    assert "no-such-package-in-the-working-directory" in job["failure"]["message"]
    assert (job["failure"]["blame"], len(job["attempts"])) == ("user", 1)
    assert "requirements: " in server.anygpu("show", job_id)
    assert_settled(cloud, job)


# -- calls that go wrong -----------------------------------------------------------------------------------------


def test_lost_answers_lagging_lists_and_throttling_cost_no_second_machine(
    server: Server, cloud: Cloud
) -> None:
    cloud.fault("lost_answer", vendor="ec2", operation="RunInstances", times=1)
    cloud.fault("listing_lag", vendor="ec2", seconds=1, times=4)
    cloud.fault("throttle", vendor="ec2", operation="list", times=3)
    job_id = submit(server, "bad-line", placement={"instance_type": "t3.large"})
    job = server.wait(job_id, "completed")
    assert len(cloud.of(job_id)) == len(job["attempts"]) == 1
    assert_settled(cloud, job)


def test_a_machine_taken_back_before_it_was_ready_is_replaced(server: Server, cloud: Cloud) -> None:
    spot = {"instance_type": "t3.large", "interruptible": True}
    job_id = submit(server, "taken-early", placement=spot, checkpoint={"paths": ["state.txt"]})
    server.until(job_id, lambda job: bool(cloud.of(job_id)))
    cloud.ask(f"preempt/{cloud.of(job_id)[0]['id']}", {"notice_s": 0})
    job = server.wait(job_id, "completed")
    assert (job["retries_used"], len(job["attempts"])) == (0, 2)
    assert_settled(cloud, job)


# -- cancelled at bad moments ------------------------------------------------------------------------------------


def test_cancelling_while_the_machine_comes_up_ends_it(server: Server, cloud: Cloud) -> None:
    ordered = submit(server, "cancel-provisioning", placement={"instance_type": "t3.medium"})
    server.until(ordered, lambda job: bool(job["attempts"]))
    cloud.fault("boot_hangs", vendor="ec2", type="t3.medium", times=1)
    booting = submit(server, "cancel-bootstrap", placement={"instance_type": "t3.medium"})
    server.until(booting, lambda job: bool(cloud.of(job["id"])))
    for job_id in (ordered, booting):
        assert cancelled(server, cloud, job_id)["failure"] is None


def test_cancelling_during_recovery_ends_it(server: Server, cloud: Cloud) -> None:
    job_id = submit(server, "cancel-recovery", "runpod", steps=400)
    server.until(job_id, lambda job: job["phase"] == "training")
    cloud.ask(f"end/{cloud.of(job_id)[0]['id']}", {})
    server.until(job_id, lambda job: job["phase"] == "recovering" or len(job["attempts"]) > 1)
    cancelled(server, cloud, job_id)


# -- looking and paying ------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_a_failed_machine_is_held_for_a_look_and_ended_when_the_time_is_over(
    server: Server, cloud: Cloud
) -> None:
    held = submit(server, "held", "runpod", code="raise SystemExit(3)", placement={"hold_on_failure": "4s"})
    server.until(held, lambda job: job["phase"] == "held")
    before = server.job(held)["cost_microusd"]
    assert "it-is-me" in server.anygpu("ssh", held, "--", "echo", "it-is-me")
    assert "held" in server.anygpu("machine", "ls")
    job = server.wait(held, "failed")
    assert job["failure"]["code"] == "exit_code"
    assert job["cost_microusd"] > before
    assert_settled(cloud, job)


@pytest.mark.extended
def test_a_budget_is_kept_by_saving_first_and_never_exceeded(server: Server, cloud: Cloud) -> None:
    job_id = submit(
        server,
        "thrifty",
        "runpod",
        steps=2000,
        limits={"max_cost": 0.001},
        checkpoint={"paths": ["state.txt"]},
    )
    job = server.wait(job_id, "failed")
    assert job["failure"]["code"] == "budget"
    assert "the budget is used up: $" in server.anygpu("show", job_id)
    assert "budget" in [e["data"]["reason"] for e in server.events(job_id) if e["type"] == "StopRequested"]
    assert job["checkpoint"]["step"] > 10
    assert sum(entry["billed_microusd"] for entry in cloud.of(job_id)) <= job["cost_microusd"] <= 1_000
    assert_settled(cloud, job)


@pytest.mark.extended
def test_machines_are_listed_with_their_job_and_one_that_is_removed_is_replaced(
    server: Server, cloud: Cloud
) -> None:
    job_id = submit(server, "removed", "runpod", steps=200)
    name = server.until(job_id, lambda job: job["phase"] == "training")["attempts"][0]["name"]
    listed = next(line for line in server.anygpu("machine", "ls").splitlines() if line.startswith(name))
    assert "runpod" in listed
    assert "removed" in listed
    assert "--force" in server.anygpu("machine", "rm", name, code=None)
    assert server.anygpu("machine", "rm", name, "--force") == f"Ending machine {name}.\n"
    job = server.wait(job_id, "completed", within_s=120)
    assert len(job["attempts"]) == 2
    assert_settled(cloud, job)


def test_a_meter_that_disagrees_raises_an_alarm(server: Server, cloud: Cloud) -> None:
    cloud.ask("meter", {"factor": 0.9})
    job_id = submit(server, "metered", placement={"instance_type": "t3.medium"})
    server.wait(job_id, "completed")
    end = time.monotonic() + 90
    while "MeterDiffered" not in {event["type"] for event in server.events(job_id)}:
        assert time.monotonic() < end, server.log()
        time.sleep(0.2)
    cloud.ask("meter", {"factor": 1})
    assert "the provider charges" in server.anygpu("show", job_id)
    assert "MeterDiffered" in server.anygpu("events", job_id)


def test_a_key_that_is_refused_when_launching_lets_the_job_go_on_elsewhere(
    server: Server, cloud: Cloud
) -> None:
    cloud.fault("bad_credentials", vendor="ec2", operation="launch")
    job_id = submit(
        server, "key-expired", placement={"allowed": ["ec2", "runpod"], "fallbacks": ["ec2", "runpod"]}
    )
    job = server.wait(job_id, "completed")
    assert "Check the credentials" in first(job)
    assert {job["attempts"][0]["backend"], job["attempts"][-1]["backend"]} == {"ec2", "runpod"}
    assert_settled(cloud, job)
