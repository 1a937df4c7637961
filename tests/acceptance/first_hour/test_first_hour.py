"""The first hour of a newcomer, step by step: what each command prints, and that nothing is rented unasked.

The wheel is installed in an environment of its own; scripts run in another. No server runs at the start. A cloud
account is configured in all steps.
"""

import asyncio
import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli.test_follow import ASKED, exit_code, shown_until, start
from tests.acceptance.first_hour.newcomer import CPUS, Newcomer
from tests.walk import paths_below

from anygpu.testing.servers.ssh_host import BEST_SERVER, open_ssh_host

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]  # the first one installs two environments

GIB, MIB = 1 << 30, 1 << 20
TRAIN = (
    "import sys, tinyindexed",
    "for epoch in range(1, 4): print(f'Epoch {epoch}/3 loss={1 / epoch:.4f}')",
    "print(sys.prefix)",
    "open('model.pt', 'w').write('weights')",
)
QUESTION = "Rent it (r), wait for a machine of your own (w), or cancel (c or Enter)?"
PLACE = "lambda gpu_1x_"


def test_01_own_script(newcomer: Newcomer) -> None:
    newcomer.shell.write("train.py", *TRAIN)
    assert not (newcomer.state / "server.json").exists()
    done = newcomer.shell("run", "train.py")
    losses = "".join(f"Epoch {epoch}/3 loss={1 / epoch:.4f}\n" for epoch in (1, 2, 3))
    assert done.stdout.decode() == f"{losses}{newcomer.user}\n"
    assert b"No server is running on this computer. Starting one." in done.stderr
    assert b"Stop it with `anygpu down`." in done.stderr
    assert b"Attempt 1 starts on local" in done.stderr
    assert b", free." in done.stderr
    assert b"Completed" in done.stderr
    assert {path.name for path in newcomer.project.iterdir()} == {"train.py", "model.pt"}


def test_02_wrong_flag(newcomer: Newcomer) -> None:
    newcomer.shell.write("train.py", *TRAIN)
    before = newcomer.jobs()
    said = newcomer.said("run", "--gpus", "1", "train.py", code=2)
    assert "No such option '--gpus'" in said
    assert "'--gpu'" in said
    assert newcomer.jobs() == before


def test_03_typo_in_the_name_of_the_script(newcomer: Newcomer) -> None:
    newcomer.shell.write("train.py", *TRAIN)
    before = newcomer.jobs()
    assert "There is no script 'trian.py'." in newcomer.said("run", "trian.py", code=66)
    assert newcomer.jobs() == before


def test_04_crash(newcomer: Newcomer) -> None:
    newcomer.shell.write("crash.py", "def fit():", "    raise ValueError('bad shape')", "fit()")
    done = newcomer.shell("run", "-n", "crash", "crash.py", code=1)
    assert b'crash.py", line 2, in fit' in done.stdout
    assert done.stdout.endswith(b"ValueError: bad shape\n")
    assert b"Failed: the script exited with code 1" in done.stderr
    shown = newcomer.said("show", "crash")
    assert "the script exited with code 1" in shown
    assert "ValueError: bad shape" in shown
    assert len(newcomer.show("crash")["attempts"]) == 1


def test_05_killed(newcomer: Newcomer) -> None:
    newcomer.shell.write(
        "greedy.py",
        "import os, signal",
        "print('allocating', flush=True)",
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    said = newcomer.said("run", "-n", "killed", "greedy.py", code=137)
    assert said.count("allocating") <= 2
    assert "killed by signal 9" in said
    assert "memory peaked at" in said
    shown = newcomer.said("show", "killed")
    assert "killed by signal 9" in shown
    assert "at the same point" in shown


def test_06_ctrl_c(newcomer: Newcomer) -> None:
    newcomer.shell.write(
        "long.py",
        "import os, time",
        "open('pid', 'w').write(str(os.getpid()))",
        "print('training', flush=True)",
        "time.sleep(600)",
    )
    pid, terminal = start(newcomer.shell, "run", "-n", "interrupted", "long.py")
    shown_until(terminal, "training")
    os.write(terminal, b"\x03")
    shown_until(terminal, ASKED)
    os.write(terminal, b"c")
    shown_until(terminal, "Cancelled")
    assert exit_code(pid, terminal) == 130
    assert newcomer.show("interrupted")["status"] == "cancelled"
    assert not Path("/proc", (newcomer.project / "pid").read_text()).exists()


def test_07_chatty_script(newcomer: Newcomer) -> None:
    newcomer.shell.write(
        "chatty.py", "for n in range(1, 20001):", "    print(f'epoch {n}/20000 loss={20000 / n:.5f}')"
    )
    done = newcomer.shell("run", "-n", "chatty", "chatty.py")
    assert done.stdout.count(b"\n") == 20_000
    assert done.stdout.endswith(b"epoch 20000/20000 loss=1.00000\n")
    job = newcomer.show("chatty")
    assert (job["progress"]["fraction"], job["progress"]["epoch"], job["metrics"]) == (1, 20_000, {"loss": 1})
    assert "100%, epoch 20000/20000" in newcomer.said("show", "chatty")


def test_08_big_folder(newcomer: Newcomer) -> None:
    with (newcomer.project / "data.bin").open("wb") as file:
        file.truncate(2 * GIB)
    newcomer.shell.write("big.py", "import os; print(os.path.getsize('data.bin'))")
    before = used_bytes(newcomer.state)
    done = newcomer.shell("run", "big.py")
    assert done.stdout == f"{2 * GIB}\n".encode()
    assert [line.split()[1] for line in done.stderr.decode().splitlines()] == ["Job", "Attempt", "Completed"]
    assert used_bytes(newcomer.state) - before < 4 * MIB


def used_bytes(folder: Path) -> int:
    used = 0
    for path in paths_below(folder):
        with suppress(FileNotFoundError):
            used += path.lstat().st_blocks * 512
    return used


def test_09_links_and_data_beside_the_project(newcomer: Newcomer) -> None:
    data = newcomer.project.parent / "data"
    data.mkdir()
    (data / "a.csv").write_text("1,2")
    (newcomer.project / "linked").symlink_to(data)
    newcomer.shell.write("read.py", "print(open('linked/a.csv').read(), open('../data/a.csv').read())")
    assert newcomer.shell("run", "read.py").stdout == b"1,2 1,2\n"


def test_10_script_elsewhere(newcomer: Newcomer) -> None:
    other = newcomer.project.parent / "x"
    other.mkdir()
    (other / "train.py").write_text("import os; print(os.getcwd())")
    newcomer.shell.write("here.py", "import os; print(os.getcwd())")
    for script in ("../x/train.py", str(other / "train.py"), str(newcomer.project / "here.py")):
        assert newcomer.shell("run", script).stdout.decode() == f"{newcomer.project}\n"


def test_11_own_data(newcomer: Newcomer) -> None:
    newcomer.shell.write("rows.csv", "1,2", "3,4")
    newcomer.shell.write("fit.py", "import os; print(open(os.environ['ANYGPU_DATASET']).read())")
    assert newcomer.shell("run", "--dataset", "rows.csv", "fit.py").stdout == b"1,2\n3,4\n\n"
    before = newcomer.jobs()
    assert "There is no dataset 'row.csv'." in newcomer.said("run", "--dataset", "row.csv", "fit.py", code=66)
    assert newcomer.jobs() == before


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (("--gpu", "A1000"), "There is no GPU 'A1000'. Did you mean 'A100'"),
        (("--on", "cheapst"), "There is no backend or strategy 'cheapst'. Did you mean 'cheapest'?"),
    ],
    ids=["12_gpu", "13_strategy"],
)
def test_12_and_13_misspelled(newcomer: Newcomer, options: tuple[str, ...], answer: str) -> None:
    newcomer.shell.write("train.py", *TRAIN)
    before = newcomer.jobs()
    assert answer in newcomer.said("run", *options, "train.py", code=65)
    assert newcomer.jobs() == before


def test_14_only_paid_machines_fit(newcomer: Newcomer) -> None:
    script = str(newcomer.project / newcomer.shell.write("w.py", *TRAIN))
    before = newcomer.jobs()
    refused = newcomer.shell("run", "--gpu", "1", "-d", script, code=73)
    assert refused.stdout == b""
    said = refused.stderr.decode()
    assert "(local: has no GPU, the job needs 1)" in said
    assert f"The best offer is {PLACE}" in said
    assert " per hour" in said
    assert "Allow it with --paid" in said
    pid, terminal = start(newcomer.shell, "run", "--gpu", "1", script)
    asked = shown_until(terminal, QUESTION)
    assert PLACE in asked
    assert " per hour" in asked
    os.write(terminal, b"c")
    shown_until(terminal, "Nothing was submitted.")
    assert exit_code(pid, terminal) == 73
    assert newcomer.jobs() == before


def test_15_all_slots_busy(newcomer: Newcomer) -> None:
    newcomer.shell.write("long.py", "import time; time.sleep(600)")
    newcomer.shell.write("train.py", *TRAIN)
    newcomer.shell("run", "-d", "-n", "busy", "--cpus", str(CPUS), "long.py")
    try:
        newcomer.wait("busy", lambda job: job["status"] == "running")
        newcomer.shell("run", "-d", "-n", "next", "train.py")
        # Positions are computed twice a second, so the first job may still be ahead at first.
        newcomer.wait("next", lambda job: bool(job["reason"]) and job["queue_position"] == 1)
        shown = newcomer.said("show", "next")
    finally:
        newcomer.shell("cancel", "busy")
    assert (
        f"waiting for  0 of {CPUS} CPU slots of the server's machine are free, and the job needs 1" in shown
    )
    assert "position 1" in shown
    ended = newcomer.wait("next", lambda job: job["status"] == "completed")
    assert ended["backend"] == "local"


async def test_16_ssh_host(newcomer: Newcomer) -> None:
    async with open_ssh_host(BEST_SERVER, newcomer.project.parent / "box") as box:
        key = newcomer.project.parent / "box-key"
        key.write_text(box.key.private_openssh)
        key.chmod(0o600)
        where = f"{box.user}@127.0.0.1:{box.port}"
        await asyncio.to_thread(_use_ssh_host, newcomer, where, str(key), box.home)


def _use_ssh_host(newcomer: Newcomer, where: str, key: str, home: Path) -> None:
    added = newcomer.said("host", "add", where, "--name", "lab", "-i", key, "--yes")
    assert "Added host lab. Run a job there with `anygpu run --on lab train.py`." in added
    newcomer.shell.write(
        "train.py", "import os", "open('model.pt', 'w').write('weights')", "print(os.environ['HOME'])"
    )
    done = newcomer.shell("run", "--on", "lab", "train.py")
    assert done.stdout.decode() == f"{home}\n"
    assert b"Attempt 1 starts on lab" in done.stderr
    assert b"Fetched 1 file" in done.stderr
    assert (newcomer.project / "model.pt").read_text() == "weights"
    assert "Removed host lab." in newcomer.said("host", "rm", "lab")


@pytest.mark.usefixtures("consent")
def test_17_simulated_cloud(newcomer: Newcomer) -> None:
    newcomer.shell.write(
        "train.py", "import os", "open('model.pt', 'w').write('weights')", "print(os.environ['HOME'])"
    )
    before = newcomer.rented()
    flags = ("--gpu", "1", "--on", "cheapest", "--max-cost", "1")
    done = newcomer.shell("run", "-n", "rented", *flags, "train.py")
    assert done.stdout.decode().strip() != newcomer.shell.environ["HOME"]
    said = done.stderr.decode()
    assert f"Attempt 1 starts on {PLACE}" in said
    assert " per hour." in said
    assert (newcomer.project / "model.pt").read_text() == "weights"
    bills = [bill for bill in newcomer.bills() if bill["id"] not in before]
    cost = newcomer.show("rented")["cost_microusd"]
    assert cost == sum(bill["billed_microusd"] for bill in bills) > 0
    shown = newcomer.said("show", "rented")
    assert f"place      {PLACE}" in shown
    assert f"cost       ${cost / 1e6:.4f}" in shown
    assert not newcomer.cloud.running()
    assert "nothing is being billed" in newcomer.said("machine", "ls")


def test_18_trainer(newcomer: Newcomer) -> None:
    rows = [f"{n},{n % 7},{'large' if n > 30 else 'small'}" for n in range(60)]
    newcomer.shell.write("sizes.csv", "length,width,size", *rows)
    training = ("run", "--trainer", "tabular", "--dataset", "sizes.csv", "--set", "target=size")
    before = newcomer.jobs()
    assert "which trainer tabular needs; run " in newcomer.said(*training, code=73)
    assert newcomer.jobs() == before
    python = str(newcomer.user / "bin" / "python")
    settings = ("-n", "sizes", "-c", "model=logistic-regression", "-c", "export=[]", "--python", python)
    said = newcomer.said(*training, *settings)
    assert "done after 1 epoch  accuracy" in said
    fetched = newcomer.said("fetch", "sizes", "--model")
    (model,) = newcomer.project.glob("model_tabular_*.joblib")
    assert model.name in fetched


SDK = """
from anygpu import Platform, Requirements
from anygpu.errors import NeedsPaidConsent

platform = Platform()
try:
    platform.submit(code="print(1)", requirements=Requirements(gpu_count=1))
except NeedsPaidConsent as refused:
    print("refused:", refused)
job = platform.submit(code="print(1)", requirements=Requirements(gpu_count=1, max_cost_usd=1))
job.result()
status = job.status()
print("ran on", status.backend, status.machine, status.region, status.price_per_hour, status.cost)
"""


@pytest.mark.usefixtures("consent")
def test_19_sdk(newcomer: Newcomer) -> None:
    before = newcomer.rented()
    newcomer.shell.write("submit.py", SDK)
    done = subprocess.run(
        [newcomer.tool / "bin" / "python", "submit.py"],
        cwd=newcomer.project,
        env=newcomer.shell.environ,
        capture_output=True,
        timeout=200,
        check=False,
    )
    said = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    (bill,) = [bill for bill in newcomer.bills() if bill["id"] not in before]
    price, cost = bill["price_microusd_per_hour"] / 1e6, bill["billed_microusd"] / 1e6
    assert "refused: Only machines that cost money can run this job (local: has no GPU" in said
    assert f"The best offer is {PLACE}" in said
    assert f"ran on lambda {bill['type']} {bill['region']} {price} {cost}" in said
    assert not newcomer.cloud.running()


@pytest.mark.needs_program("curl")
def test_20_curl(newcomer: Newcomer) -> None:
    newcomer.said("up", "-d")
    created = curl(newcomer, "training", {"command": ["echo", "hello"], "name": "curled"})
    assert created["status"] == "queued"
    newcomer.wait(created["id"], lambda _: curl(newcomer, "training/curled")["status"] == "completed")
    assert curl(newcomer, "training/curled")["place"]["price_microusd_per_hour"] == 0
    refused = curl(newcomer, "training", {"comand": ["echo", "hello"]})
    assert (refused["status"], refused["code"]) == (422, "invalid_spec")
    assert "comand" in json.dumps(refused)
    assert "command" in refused["detail"]


def curl(newcomer: Newcomer, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    url = json.loads((newcomer.state / "server.json").read_text())["url"]
    token = (newcomer.state / "token").read_text().strip()
    headers = ["-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json"]
    data = [] if body is None else ["-d", json.dumps(body)]
    command = ["curl", "-sS", f"{url}/api/v1/{path}", *headers, *data]
    done = subprocess.run(command, env=newcomer.shell.environ, capture_output=True, timeout=60, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_21_nothing_is_left_running(newcomer: Newcomer) -> None:
    newcomer.said("up", "-d")
    assert "Stopped the server" in newcomer.said("down")
    newcomer.wait_until_no_process_runs()
    assert not newcomer.cloud.running()
