"""No machine is rented unasked: what `anygpu run` does when only machines that cost money can run a job."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli.conftest import Shell, environment, stop
from tests.acceptance.cli.rented_backend import install
from tests.acceptance.cli.test_follow import exit_code, shown_until, start

QUESTION = "Rent it (r), wait for a machine of your own (w), or cancel (c or Enter)?"
OFFER = "cloud gpu_1x_t4 in eu-north"
NO_GPU = "local: has no GPU, the job needs 1"


@dataclass
class Account:
    """A computer without a GPU, with an account at a cloud."""

    shell: Shell
    record: Path

    def rented(self) -> list[str]:
        return self.record.read_text().splitlines() if self.record.exists() else []

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.shell.json("ls", "--all")["jobs"])


@pytest.fixture(scope="module")
def served_with_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], Path]]:
    place = tmp_path_factory.mktemp("consent")
    environ, record = environment(place), place / "rented"
    environ["PYTHONPATH"] = str(install(place / "plugin"))
    environ["ANYGPU_LOCAL__CPUS"] = "1"
    config = Path(environ["ANYGPU_CONFIG"])
    config.parent.mkdir()
    config.write_text(f'[backends.cloud]\nkind = "rented"\nrecord = {json.dumps(str(record))}\n')
    Shell(place, environ)("up", "-d")
    yield environ, record
    stop(environ)


@pytest.fixture
def account(served_with_cloud: tuple[dict[str, str], Path], tmp_path: Path) -> Iterator[Account]:
    environ, record = served_with_cloud
    (tmp_path / "project").mkdir()
    made = Account(Shell(tmp_path / "project", environ), record)
    made.shell.write("w.py", "print('ran')")
    yield made
    for status in ("queued", "running"):
        for job in made.shell.json("ls", "--all", "--status", status)["jobs"]:
            made.shell("cancel", "--wait", job["id"])
    record.unlink(missing_ok=True)


def test_without_a_terminal_the_job_is_refused_with_the_option_that_allows_it(account: Account) -> None:
    before = len(account.jobs())
    script = str(account.shell.directory / "w.py")
    refused = account.shell("run", "--gpu", "1", "-d", script, code=73)
    said = refused.stderr.decode()
    assert OFFER in said
    assert "$0.60 per hour" in said
    assert f"can run this job ({NO_GPU}). The best offer" in said
    assert "--paid" in said
    assert refused.stdout == b""
    assert (len(account.jobs()), account.rented()) == (before, [])


def test_a_refusal_carries_the_offer_for_programs(account: Account) -> None:
    from anygpu.errors import NeedsPaidConsent
    from anygpu.sdk.client import Client
    from anygpu.sdk.http import Endpoint

    state = Path(account.shell.environ["ANYGPU_STATE"])
    url = json.loads((state / "server.json").read_text())["url"]
    client = Client(lambda: Endpoint(url, (state / "token").read_text().strip()))
    spec = {"code": "print(1)", "resources": {"gpu": 1}, "placement": {"expected_duration": "1h"}}
    with pytest.raises(NeedsPaidConsent) as refused:
        client.submit(spec, key="same")
    offer = refused.value.details["offer"]
    assert (offer["backend"], offer["region"], offer["price_microusd_per_hour"]) == (
        "cloud",
        "eu-north",
        600_000,
    )
    assert 600_000 < offer["cost_microusd"] < 700_000
    assert 3600 < offer["seconds"] < 4000
    accepted = client.submit({**spec, "placement": {"paid": False}}, key="same")
    assert client.submit(spec, key="same")["id"] == accepted["id"]  # the key was used: no second check


@pytest.mark.parametrize("key", [b"\n", b"c"], ids=["enter", "c"])
def test_on_a_terminal_enter_cancels_and_nothing_is_submitted(account: Account, key: bytes) -> None:
    before = len(account.jobs())
    pid, terminal = start(account.shell, "run", "--gpu", "1", "w.py")
    seen = shown_until(terminal, QUESTION)
    assert OFFER in seen
    assert "$0.6000 per hour" in seen
    assert NO_GPU in seen
    os.write(terminal, key)
    shown_until(terminal, "Nothing was submitted.")
    assert exit_code(pid, terminal) == 73
    assert (len(account.jobs()), account.rented()) == (before, [])


def test_on_a_terminal_the_offer_can_be_rented(account: Account) -> None:
    pid, terminal = start(
        account.shell,
        "run",
        "--name",
        "rent",
        "--gpu",
        "1",
        "--set",
        "placement.expected_duration=1h",
        "w.py",
    )
    seen = shown_until(terminal, QUESTION)
    assert "in total" in seen
    os.write(terminal, b"r")
    seen = shown_until(terminal, "Completed")
    assert f"Attempt 1 starts on {OFFER}, $0.6000 per hour." in seen
    assert exit_code(pid, terminal) == 0
    assert len(account.rented()) == 1
    job = account.shell.json("show", "rent")
    assert job["spec"]["placement"]["paid"] is True
    assert (job["place"]["region"], job["place"]["price_microusd_per_hour"]) == ("eu-north", 600_000)
    shown = account.shell("show", "rent").stdout.decode()
    assert f"{OFFER}, $0.6000 per hour" in shown
    assert job["cost_microusd"] >= 0
    assert "cost       $" in shown
    assert "$0.6000 per hour" in account.shell("ls").stdout.decode()
    assert OFFER in account.shell("watch", "--once", "rent").stdout.decode()


def test_on_a_terminal_the_job_can_wait_for_an_own_machine(account: Account) -> None:
    pid, terminal = start(account.shell, "run", "-d", "--name", "wait", "--gpu", "1", "w.py")
    shown_until(terminal, QUESTION)
    os.write(terminal, b"w")
    shown_until(terminal, "Submitted")
    assert exit_code(pid, terminal) == 0
    job = account.shell.json("show", "wait")
    assert (job["status"], job["spec"]["placement"]["paid"]) == ("queued", False)
    assert account.rented() == []


def test_a_busy_own_machine_is_waited_for(account: Account) -> None:
    account.shell.write("long.py", "import time; time.sleep(600)")
    account.shell("run", "-d", "--name", "busy", "long.py")
    account.shell("run", "-d", "--name", "next", "w.py")
    # Positions are computed twice a second, so the first job may still be ahead at first.
    waiting = _until(account, "next", lambda job: bool(job["reason"]) and job["queue_position"] == 1)
    assert waiting["status"] == "queued"
    account.shell("cancel", "--wait", "busy")
    ended = _until(account, "next", lambda job: job["status"] == "completed")
    assert ended["backend"] == "local"
    assert account.rented() == []


def test_options_that_name_a_place_or_a_budget_rent(account: Account) -> None:
    said = account.shell("run", "--gpu", "1", "--max-cost", "5", "w.py").stderr.decode()
    assert f"Attempt 1 starts on {OFFER}, $0.6000 per hour." in said
    account.shell("run", "--gpu", "1", "--paid", "w.py")
    account.shell("run", "--on", "cloud", "w.py")
    assert len(account.rented()) == 3
    said = account.shell("run", "w.py").stderr.decode()
    assert "Attempt 1 starts on local" in said
    assert ", free." in said


def test_a_resumed_job_needs_the_same_consent(account: Account) -> None:
    account.shell("run", "--name", "own", "w.py")
    refused = account.shell("resume", "-d", "own", "--set", "resources.gpu=1", code=73)
    assert b"--paid" in refused.stderr
    assert account.rented() == []


IMPOSSIBLE = [
    (("--gpu", "A1000"), "There is no GPU 'A1000'. Did you mean"),
    (("--gpu", "H100", "--paid"), "No configured backend has the GPU H100; they have T4."),
    (("--gpu", "H100"), "`anygpu backend add "),
    (
        ("--gpu", "16"),
        "needs 16 GPUs in one machine, and the largest machine of the configured backends has 1",
    ),
    (("--on", "cheapst"), "There is no backend or strategy 'cheapst'. Did you mean 'cheapest'?"),
    (
        ("--on", "local,nowhere"),
        "There is no backend or strategy 'nowhere'. Configured backends: cloud, local.",
    ),
    (("--set", "placement.region=mars"), "No configured backend has the region 'mars'. There are: eu-north."),
    (("--set", "placement.region=eu-nort"), "Did you mean 'eu-north'?"),
    (("--cpus", "4000"), "CPUs, the job needs 4000"),
    (
        ("--gpu", "1", "--max-cost", "0.01"),
        f"The cheapest, {OFFER} at $0.60 per hour, costs at least $0.0300.",
    ),
]


@pytest.mark.parametrize(("options", "said"), IMPOSSIBLE, ids=[" ".join(row[0]) for row in IMPOSSIBLE])
def test_a_job_that_nothing_can_ever_run_is_refused_at_once(
    account: Account, options: tuple[str, ...], said: str
) -> None:
    before = len(account.jobs())
    refused = account.shell("run", "-d", *options, "w.py", code=65).stderr.decode()
    assert said in refused
    assert (len(account.jobs()), account.rented()) == (before, [])


def test_what_is_missing_on_this_computer_is_found_before_submission(account: Account) -> None:
    before = len(account.jobs())
    account.shell("run", "-d", "missing.py", code=66)
    account.shell("run", "-d", "--requirements", "missing.txt", "w.py", code=66)
    account.shell("run", "-d", "--dataset", "missing.csv", "w.py", code=66)
    account.shell("run", "-d", "--workdir", "missing", "w.py", code=66)
    assert len(account.jobs()) == before


def test_a_missing_secret_warns_and_the_job_is_submitted(account: Account) -> None:
    made = account.shell("run", "-d", "--secret", "HF_TOKEN", str(account.shell.directory / "w.py"))
    assert b"anygpu secret set HF_TOKEN" in made.stderr
    assert made.stdout.strip()


def _until(account: Account, name: str, holds: Any, timeout_s: float = 30) -> dict[str, Any]:
    import time

    end = time.monotonic() + timeout_s
    while not holds(job := account.shell.json("show", name)):
        assert time.monotonic() < end, job
        time.sleep(0.1)
    return dict(job)


def test_files_are_copied_only_for_jobs_that_may_use_a_paid_machine(account: Account) -> None:
    here = {"path": str(account.shell.directory)}
    account.shell("run", "w.py")
    assert account.shell.json("show", "last")["spec"]["workdir"] == here
    account.shell("run", "--max-cost", "5", "w.py")
    assert account.shell.json("show", "last")["spec"]["workdir"].keys() == {"path", "manifest"}
    account.shell("run", "--max-cost", "5", "--no-paid", "w.py")
    assert account.shell.json("show", "last")["spec"]["workdir"] == here


def test_files_are_copied_where_a_setting_allows_paid_machines(alone: Shell, tmp_path: Path) -> None:
    alone.environ |= {"PYTHONPATH": str(install(tmp_path / "plugin")), "ANYGPU_CONTROL__ALLOW_PAID": "true"}
    alone.environ["ANYGPU_BACKENDS__CLOUD__KIND"] = "rented"
    alone.environ["ANYGPU_BACKENDS__CLOUD__RECORD"] = str(tmp_path / "rented")
    alone.write("w.py", "print('ran')")
    alone("run", "w.py")
    assert alone.json("show", "last")["spec"]["workdir"].keys() == {"path", "manifest"}
