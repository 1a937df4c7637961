"""The batch script of an attempt, and the programs that submit it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from anygpu.agent import exit_codes
from anygpu.backends.contract import LaunchRequest
from anygpu.backends.slurm import script
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.script import ClusterPlace, time_limit_s
from anygpu.events.offers import Offer
from anygpu.spec.sections import Gpu, Resources

PLACE = ClusterPlace(root="/shared/me", owner="abc123", kill_wait_s=30)
OFFER = Offer(backend="lab", name="gpu/a100x4", gpu_count=4, cpus=64)


def launch(**fields: Any) -> LaunchRequest:
    name = f"anygpu-{'ab' * 16}-1"
    plain = {"job_id": "j", "attempt": 1, "ticket": "TICKET", "agent_url": "http://server:1"}
    return LaunchRequest(**{"name": name, "resources": Resources(), **plain, **fields})


def submission(offer: Offer = OFFER, **fields: Any) -> str:
    return script.submit_program(launch(**fields), offer, "the script", PLACE, "/shared/me/agent/x.pyz")


def options_of(offer: Offer = OFFER, chosen: SlurmOptions | None = None, **fields: Any) -> list[str]:
    return script.sbatch_options(launch(**fields), offer, chosen or SlurmOptions(), PLACE)


def test_the_script_asks_for_what_the_job_needs() -> None:
    chosen = SlurmOptions(account="vision", qos="high", constraint="a&b", sbatch_options=("--exclude=n7",))
    need = Resources(gpu=Gpu(count=2), memory_gib=10)
    options = options_of(chosen=chosen, resources=need)
    assert {"--gres=gpu:a100:2", "--cpus-per-task=32", "--mem=10240M", "--account=vision"} <= set(options)
    assert {"--partition=gpu", "--qos=high", "--constraint=a&b", "--comment=anygpu:abc123"} <= set(options)
    assert options[-2:] == ["--no-requeue", "--exclude=n7"]
    assert {"--time=UNLIMITED", "--export=ALL"} <= set(options)


@pytest.mark.parametrize("given", ["--mem=64G", "--mem-per-cpu=4G", "--mem-per-gpu=32G"])
def test_the_memory_of_a_job_replaces_that_of_the_backend(given: str) -> None:
    chosen = SlurmOptions(sbatch_options=(given, "--mem-bind=local"))
    gpu = Gpu(count=1)
    options = options_of(chosen=chosen, resources=Resources(gpu=gpu, memory_gib=10))
    assert [option for option in options if "mem" in option] == ["--mem=10240M", "--mem-bind=local"]
    options = options_of(chosen=chosen, resources=Resources(gpu=gpu))
    assert [option for option in options if "mem" in option] == [given, "--mem-bind=local"]


def test_a_job_without_gpus_has_no_memory_for_each_gpu() -> None:
    assert "--mem-per-gpu=32G" not in options_of(chosen=SlurmOptions(sbatch_options=("--mem-per-gpu=32G",)))


def test_options_for_the_number_of_cpus_are_refused_with_the_reason() -> None:
    with pytest.raises(ValidationError, match=r"resources\.cpus"):
        SlurmOptions(sbatch_options=("--cpus-per-gpu=8",))


def test_the_agent_gets_a_signal_before_the_time_limit_and_knows_how_much_time_is_left() -> None:
    limited = Offer(backend="lab", name="gpu/cpu", max_run_s=7200)
    assert {"--time=120", "--signal=B:URG@120"} <= set(options_of(limited))
    assert '"sigurg_notice_s": 120' in submission(limited)
    short = Offer(backend="lab", name="gpu/cpu", max_run_s=60)
    assert "--time=1" in options_of(short)
    assert not any("signal" in option for option in options_of(short))
    assert "sigurg" not in submission(short)


@pytest.mark.parametrize(
    ("run_s", "longest_s", "limit_s"),
    [(None, None, None), (None, 600, 600), (600, None, 1500), (600, 1000, 1000), (600, 86_400, 1500)],
)
def test_a_job_gets_more_time_than_its_own_limit(
    run_s: float | None, longest_s: float | None, limit_s: float | None
) -> None:
    assert time_limit_s(run_s, longest_s) == limit_s


def test_the_ticket_is_not_in_the_script_but_in_the_program() -> None:
    text = script.batch_script(launch(), OFFER, SlurmOptions(), PLACE, "/shared/me/agent/x.pyz")
    assert "TICKET" not in text
    assert "TICKET" in submission()
    assert 'export CUDA_VISIBLE_DEVICES=""' in text


@pytest.mark.parametrize("program", [submission(), script.queue_program()])
def test_queries_of_the_queue_list_jobs_in_hidden_partitions(program: str) -> None:
    assert program.count("squeue ") == program.count("squeue -h -a ") == 1


def test_a_restarted_script_starts_no_agent(tmp_path: Path) -> None:
    place = ClusterPlace(root=str(tmp_path), owner="abc")
    text = script.batch_script(launch(), OFFER, SlurmOptions(python="/bin/false"), place, "agent")
    (tmp_path / "scancel").write_text("#!/bin/sh\necho cancelled $1\n")
    (tmp_path / "scancel").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
    done = subprocess.run(["sh", "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "cancelled 7\n")
    (Path(place.directory(launch().name))).mkdir(parents=True)
    (Path(place.directory(launch().name)) / "ended").touch()
    environment["SLURM_RESTART_COUNT"] = "0"
    done = subprocess.run(["sh", "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "cancelled 7\n"


def test_the_agents_of_several_nodes_start_in_directories_of_their_own() -> None:
    gang = launch(nodes=3)
    text = script.batch_script(gang, OFFER, SlurmOptions(), PLACE, "/shared/me/agent/x.pyz")
    assert "#SBATCH --nodes=3" in text
    assert "exec srun --nodes=3 --ntasks=3 --ntasks-per-node=1 --cpus-per-task=1" in text
    program = submission(nodes=3)
    assert f"mkdir -p {PLACE.directory(gang.name)}-n2" in program
    assert program.count('"node": ') == 3
    limited = Offer(backend="lab", name="gpu/cpu", max_run_s=7200)
    assert "--signal=URG@120" in options_of(limited, nodes=2)


def test_old_directories_are_removed_but_not_those_of_live_attempts(tmp_path: Path) -> None:
    place = ClusterPlace(root=str(tmp_path), owner="abc")
    for name in ("anygpu-old-1", "anygpu-live-1", "anygpu-live-1-n1", "anygpu-undelivered-1", "anygpu-new-1"):
        Path(place.directory(name)).mkdir(parents=True)
    (Path(place.directory("anygpu-undelivered-1")) / "work.json").touch()
    for name in ("old-1", "live-1", "live-1-n1", "undelivered-1"):
        subprocess.run(["touch", "-d", "4 days ago", place.directory(f"anygpu-{name}")], check=True)
    (tmp_path / "agent").mkdir()
    for name in ("used", "unused", "new"):
        (tmp_path / "agent" / f"{name}.pyz").touch()
        if name != "new":
            subprocess.run(["touch", "-d", "40 days ago", tmp_path / "agent" / f"{name}.pyz"], check=True)
    (Path(place.directory("anygpu-live-1")) / "job.sh").write_text(f"python3 {tmp_path}/agent/used.pyz .\n")
    subprocess.run(["touch", "-d", "4 days ago", place.directory("anygpu-live-1")], check=True)
    program = script.cleanup_program(place, ["anygpu-live-1"], 1, 30)
    subprocess.run(["sh", "-c", program], check=True)
    assert sorted(path.stem for path in (tmp_path / "agent").iterdir()) == ["new", "used"]
    left = sorted(path.name for path in (tmp_path / "abc").iterdir())
    assert left == ["anygpu-live-1", "anygpu-live-1-n1", "anygpu-new-1", "anygpu-undelivered-1"]


@pytest.mark.parametrize(("hours", "is_kept"), [(23, True), (25, False)])
def test_a_delivered_directory_is_removed_after_a_day(tmp_path: Path, hours: int, is_kept: bool) -> None:
    assert remains_after_clean_up(tmp_path, hours) is is_kept


@pytest.mark.parametrize(("hours", "is_kept"), [(719, True), (721, False)])
def test_reports_that_were_never_sent_are_removed_after_a_month(
    tmp_path: Path, hours: int, is_kept: bool
) -> None:
    assert remains_after_clean_up(tmp_path, hours, "work.json") is is_kept


def remains_after_clean_up(root: Path, hours: int, *files: str) -> bool:
    """Return whether the clean-up keeps the directory of an attempt that ended so long ago."""
    directory = root / "abc" / "anygpu-old-1"
    directory.mkdir(parents=True)
    for name in files:
        (directory / name).touch()
    subprocess.run(["touch", "-d", f"{hours} hours ago", directory], check=True)
    program = script.cleanup_program(ClusterPlace(root=str(root), owner="abc"), [], 1, 30)
    subprocess.run(["sh", "-c", program], check=True, capture_output=True)
    return directory.exists()


def test_the_clean_up_names_the_ended_attempts_whose_reports_are_left(tmp_path: Path) -> None:
    place = ClusterPlace(root=str(tmp_path), owner="abc")
    live, left, refused, done = (f"anygpu-{number * 32}-1" for number in "1234")
    for name in (live, f"{live}-n1", left, f"{left}-n1", refused, done):
        Path(place.directory(name)).mkdir(parents=True)
        if name != done:
            (Path(place.directory(name)) / "work.json").touch()
    (Path(place.directory(refused)) / "rejected").touch()
    program = script.cleanup_program(place, [live], 1, 30)
    ended = subprocess.run(["sh", "-c", program], check=True, capture_output=True, text=True)
    assert script.read_undelivered(f"Welcome\n{ended.stdout}") == [left]


@pytest.mark.parametrize(
    ("agent_exit", "exit_code", "tries"),
    [(0, 0, 1), (exit_codes.DUPLICATE, exit_codes.DUPLICATE, 2), (77, 0, 1)],
)
def test_a_delivery_says_whether_reports_are_left(
    tmp_path: Path, agent_exit: int, exit_code: int, tries: int
) -> None:
    place, name = ClusterPlace(root=str(tmp_path), owner="abc"), f"anygpu-{'1' * 32}-1"
    directory = Path(place.directory(name))
    directory.mkdir(parents=True)
    (directory / "work.json").touch()
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, sys\nopen('tries', 'a').write('x')\n"
        f"if {agent_exit} == 0: os.remove('work.json')\nsys.exit({agent_exit})\n"
    )
    program = script.delivery_program(name, place, str(agent), "http://127.0.0.1:9")
    for _ in range(2):
        assert subprocess.run(["sh", "-c", program], check=False).returncode == exit_code
    assert (directory / "tries").read_text() == "x" * tries


@pytest.mark.parametrize(
    "bad",
    [
        {"sbatch_options": ["--wrap=reboot"]},
        {"sbatch_options": ["--exclude=a b"]},
        {"sbatch_options": ["-p gpu"]},
        {"partitions": ["a b"]},
        {"account": "x\n#SBATCH --uid=0"},
        {"constraint": "$(x)"},
        {"directory": "relative"},
        {"directory": "/a b"},
        {"setup": ["two\nlines"]},
        {"gpu_prices": ["a100"]},
    ],
)
def test_options_that_could_change_the_script_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SlurmOptions.model_validate(bad)


def test_prices_of_gpu_types() -> None:
    chosen = SlurmOptions(price_microusd_per_hour=5, gpu_prices=("A100=1200000",))
    assert (chosen.price_of("a100"), chosen.price_of("t4")) == (1_200_000, 5)
