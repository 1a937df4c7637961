"""The backend with commands that behave as Slurm's do in trouble. The real ones are in tests/clusters/slurm."""

import asyncio
import os
import re
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.slurm.recorded import FACTS

from anygpu.agent import exit_codes
from anygpu.backends.contract import LaunchRequest, MachineState
from anygpu.backends.registry import BackendContext
from anygpu.backends.relay.contract import Relays
from anygpu.backends.slurm import backend as module
from anygpu.backends.slurm.backend import SlurmBackend
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import split_sections
from anygpu.backends.slurm.shell import COMMAND_TIMEOUT_S, ClusterOutcomeUnknown, LocalShell, ShellResult
from anygpu.backends.slurm.waits import UNKNOWN_WAIT_S
from anygpu.errors import LaunchRefused, NoQuota
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

NAME = f"anygpu-{'ab' * 16}-1"
LAUNCH = LaunchRequest(
    name=NAME,
    job_id="j",
    attempt=1,
    ticket="TICKET",
    agent_url="http://127.0.0.1:9",
    resources=Resources(),
)
OFFER = Offer(backend="lab", name="gpu/cpu", cpus=8)
SECTIONS = split_sections(FACTS)


class Commands(LocalShell):
    """Runs shell programs with stand-ins for the commands of Slurm, and counts the programs that run."""

    def __init__(self, folder: Path) -> None:
        super().__init__({"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)})
        self._folder = folder
        self.greeting = ""
        self.put("sinfo", f"cat <<'END'\n{SECTIONS['nodes']}END")
        parts = "\n".join(
            f"{name}) cat <<'END'\n{SECTIONS[f'{name}s']}END\n;;" for name in ("partition", "reservation")
        )
        self.put("scontrol", f'case "$2" in\n{parts}\nesac')
        for name in ("squeue", "sbatch", "scancel", "sacct"):
            self.put(name, "exit 0")

    def put(self, name: str, program: str) -> None:
        (self._folder / name).write_text(f"#!/bin/sh\n{program}\n")
        (self._folder / name).chmod(0o755)

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        done = await super().run(program, data, timeout_s=timeout_s)
        return ShellResult(done.code, self.greeting + done.output, done.errors)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def open_backend(commands: Any, **options: Any) -> SlurmBackend:
    chosen = SlurmOptions(**options)
    return SlurmBackend("lab", chosen, secret=b"s", agent_target=("127.0.0.1", 9), shell=commands)


@pytest.fixture
async def backend(commands: Commands) -> Any:
    made = open_backend(commands)
    yield made
    await made.close()


@pytest.mark.parametrize("options", [{"constraint": "a100"}, {"sbatch_options": ("--nodelist=n9",)}])
async def test_idle_nodes_that_the_options_exclude_are_refused_before_a_launch(
    commands: Commands, tmp_path: Path, options: dict[str, Any]
) -> None:
    refusal = "Requested node configuration is not available"
    commands.put("sbatch", f"echo x >> {tmp_path}/tests; echo 'allocation failure: {refusal}' >&2; exit 1")
    constrained, free = open_backend(commands, **options), open_backend(commands)
    for _ in range(2):
        found = await constrained.offers(Resources())
        assert {offer.refused for offer in found} == {f"Slurm refuses the request: {refusal}"}
    assert (tmp_path / "tests").read_text() == "x\n" * 2  # once for each of the two offers
    assert [offer.refused for offer in await free.offers(Resources())] == ["", ""]
    for backend in (constrained, free):
        await backend.close()


class SlowTests(Commands):
    """A controller that does not answer `sbatch --test-only` in time."""

    tests = 0

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        if "--test-only" in program:
            self.tests += 1
            raise ClusterOutcomeUnknown("A command of Slurm did not end within 60 s")
        return await super().run(program, data, timeout_s=timeout_s)


async def test_offers_remain_if_slurm_does_not_say_when_jobs_would_start(tmp_path: Path) -> None:
    shell = SlowTests(tmp_path)
    lines = SECTIONS["nodes"].splitlines()
    busy = [re.sub(r"\d/\d/0/8", "8/0/0/8", line) if line[:3] == "pre" else line for line in lines]
    shell.put("sinfo", "\n".join(("cat <<'END'", *busy, "END")))
    backend = open_backend(shell)
    for _ in range(2):
        found = {offer.name: offer for offer in await backend.offers(Resources())}
        waits = {name: offer.expected_wait_s for name, offer in found.items()}
        assert waits == {"gpu/t4x2": 0, "preemptible/t4x2": UNKNOWN_WAIT_S}
        assert not any(offer.refused for offer in found.values())
    assert shell.tests == 1
    await backend.close()


async def test_the_number_of_a_job_is_found_after_greetings_of_the_site(
    commands: Commands, backend: SlurmBackend
) -> None:
    commands.greeting = "Welcome to the cluster!\nMaintenance on Monday.\n"
    commands.put("sbatch", "echo 'Checking your account ... OK'; echo '77;main'")
    handle = await backend.launch(LAUNCH, OFFER)
    assert handle.native == {"job": 77}
    commands.put("squeue", "echo 77")
    again = await backend.launch(LAUNCH, OFFER)
    assert again.native == {"job": 77}


async def test_a_submission_that_prints_no_number_has_an_unknown_outcome(
    commands: Commands, backend: SlurmBackend
) -> None:
    commands.put("sbatch", "exit 0")
    with pytest.raises(ClusterOutcomeUnknown):
        await backend.launch(LAUNCH, OFFER)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("Batch job submission failed: Resource temporarily unavailable", NoQuota),
        ("Slurm temporarily unable to accept job, sleeping and retrying", NoQuota),
        ("Batch job submission failed: Message receive failure", ClusterOutcomeUnknown),
        ("Batch job submission failed: Protocol authentication error", ClusterOutcomeUnknown),
        ("Batch job submission failed: Invalid qos specification", LaunchRefused),
    ],
)
async def test_refusals_of_sbatch_are_told_apart(
    commands: Commands, backend: SlurmBackend, message: str, error: type[Exception]
) -> None:
    commands.put("sbatch", f"echo 'sbatch: error: {message}' >&2; exit 1")
    with pytest.raises(error, match=message) as raised:
        await backend.launch(LAUNCH, OFFER)
    assert type(raised.value) is error


async def test_a_job_that_exceeds_a_limit_of_its_qos_alone_is_refused(
    commands: Commands, backend: SlurmBackend
) -> None:
    policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    commands.put(
        "sbatch",
        f"echo sbatch: error: QOSMaxWallDurationPerJobLimit >&2\necho sbatch: error: Batch job submission failed: "
        f"{shlex.quote(policy)} >&2\nexit 1",
    )
    with pytest.raises(LaunchRefused, match=r"QOSMaxWallDurationPerJobLimit: .*max_run_s") as raised:
        await backend.launch(LAUNCH, OFFER)
    assert type(raised.value) is LaunchRefused


@pytest.mark.parametrize("host", [None, "me@login"])
async def test_the_relay_of_the_cluster_is_polled_as_the_settings_say(
    tmp_path: Path, host: str | None
) -> None:
    context = BackendContext(
        secret=b"s",
        agent_target=("127.0.0.1", 9),
        pins=tmp_path,
        on_change=lambda name: None,
        relays=Relays(poll_s=7),
    )
    made = await module.open_backend("lab", SlurmOptions(host=host, directory=str(tmp_path)), context)
    assert made.relay is not None
    assert made.relay.poll_s == 7
    await made.close()


class LimitedQueue(Commands):
    """A Slurm that accepts two jobs of this user at the same time. `end` ends one."""

    LIMIT = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        name = "$(sed -n 's/^#SBATCH --job-name=//p' job.sh)"
        tag = "$(sed -n 's/^#SBATCH --comment=//p' job.sh)"
        self.put(
            "sbatch",
            f'if [ "$(grep -l RUNNING {self.jobs}/* 2>/dev/null | wc -l)" -ge {self.LIMIT} ]; then\n'
            "echo sbatch: error: QOSMaxSubmitJobPerUserLimit >&2; exit 1\nfi\n"
            f'printf "$$\\037RUNNING\\0370\\0371\\0372\\037NONE\\0370\\037None\\037n1\\037{tag}\\037{name}\\037\\n" > '
            f"{self.jobs}/{name}\necho $$",
        )
        self.put("squeue", f'case "$*" in *" -n "*) ;; *) cat {self.jobs}/* 2>/dev/null; exit 0 ;; esac')

    def running(self) -> list[Path]:
        return [path for path in sorted(self.jobs.iterdir()) if "RUNNING" in path.read_text()]

    def end(self) -> None:
        path = self.running()[0]
        path.write_text(path.read_text().replace("RUNNING", "COMPLETED"))


async def test_jobs_that_a_limit_of_submissions_refuses_try_again_when_others_have_ended(
    tmp_path: Path,
) -> None:
    shell = LimitedQueue(tmp_path)
    backend = open_backend(shell, poll_s=0.2, partitions=("gpu",))
    waiting, running = [f"anygpu-{number:032x}" for number in range(6)], list[str]()
    attempts = dict.fromkeys(waiting, 0)

    async def schedule() -> None:
        """Launch waiting jobs as the scheduler does: as many as the offer has place for."""
        [offer] = await backend.offers(Resources())
        for job in waiting[: offer.free]:
            attempts[job] += 1
            name = f"{job}-{attempts[job]}"
            try:
                await backend.launch(replace(LAUNCH, name=name), offer)
            except NoQuota:
                await backend.terminate(Handle(name=name))
            else:
                waiting.remove(job)
                running.append(name)

    while waiting:
        for _ in range(5):
            await schedule()
        assert len(shell.running()) == shell.LIMIT
        shell.end()
        async with asyncio.timeout(60):
            while not (await backend.offers(Resources()))[0].free:
                await backend.probe(Handle(name=NAME))
                await asyncio.sleep(0.05)
    assert max(attempts.values()) <= 2
    directories = tmp_path / ".anygpu" / "slurm" / backend._owner
    assert sorted(path.name for path in directories.iterdir()) == sorted(running)
    await backend.close()


class Unanswered(Commands):
    """A connection that is lost whenever sacct runs."""

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        if "sacct" in program:
            raise ClusterOutcomeUnknown("the database does not answer")
        return await super().run(program, data, timeout_s=timeout_s)


async def test_accounting_that_does_not_answer_does_not_hide_the_end_of_a_job(tmp_path: Path) -> None:
    backend = open_backend(Unanswered(tmp_path))
    observed = await backend.probe(Handle(name=NAME, native={"job": 7}))
    assert observed.state is MachineState.GONE
    await backend.close()


class Deliveries(Commands):
    """Notes how many deliveries run at the same time. They do not end by themselves."""

    deliveries = most = 0

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        if "--deliver" not in program:
            return await super().run(program, data, timeout_s=timeout_s)
        async with self._sessions:
            self.deliveries += 1
            self.most = max(self.most, self.deliveries)
            await asyncio.sleep(1000)
        raise AssertionError("it must not end")


async def test_many_deliveries_leave_sessions_for_queries(tmp_path: Path) -> None:
    shell = Deliveries(tmp_path)
    backend = open_backend(shell)
    for number in range(12):
        await backend.deliver(Handle(name=f"{NAME}{number}"))
    while shell.deliveries < 2:
        await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        assert (await backend.probe(Handle(name=NAME))).state is MachineState.ABSENT
    assert shell.most == 2
    await backend.close()


LIVE = f"7\x1fCOMPLETING\x1f0\x1f1\x1f2\x1fNONE\x1f0\x1fNone\x1fn1\x1f(null)\x1f{NAME}\x1f\n"


class FailingDeliveries(Commands):
    """A Slurm job that ends late, and a login node that sends the reports only at the third try."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.queries_while_live = 2
        self.tries: list[int] = []  # after how many queries of the queue
        self.queries = 0
        self.delivered = asyncio.Event()

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        if "squeue -h -a -t all" in program:
            self.queries += 1
            return ShellResult(0, LIVE if self.queries <= self.queries_while_live else "", "")
        if "--deliver" not in program:
            return await super().run(program, data, timeout_s=timeout_s)
        self.tries.append(self.queries)
        if len(self.tries) == 1:
            raise ClusterOutcomeUnknown("the connection was lost")
        if len(self.tries) == 2:
            return ShellResult(exit_codes.DUPLICATE, "", "")
        self.delivered.set()
        return ShellResult(0, "", "")


async def test_reports_are_sent_when_the_slurm_job_has_ended_and_again_after_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELIVERY_PAUSES_S", (0.0,) * 8)
    shell = FailingDeliveries(tmp_path)
    backend = open_backend(shell)
    await backend.deliver(Handle(name=NAME))
    await backend.deliver(Handle(name=NAME))  # is under way already
    async with asyncio.timeout(30):
        await shell.delivered.wait()
    assert shell.tries == [3, 4, 5]
    await backend.close()


async def test_the_clean_up_delivers_what_an_earlier_server_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLEANUP_EVERY_S", float("-inf"))
    monkeypatch.setattr(module, "DELIVERY_PAUSES_S", (0.0,) * 8)
    shell = FailingDeliveries(tmp_path)
    backend = open_backend(shell)
    (tmp_path / ".anygpu" / "slurm" / backend._owner / NAME).mkdir(parents=True)
    (tmp_path / ".anygpu" / "slurm" / backend._owner / NAME / "work.json").touch()
    assert await backend.inventory() == []
    async with asyncio.timeout(30):
        await shell.delivered.wait()
    await backend.close()


async def test_a_command_that_hangs_is_ended_with_its_shell(tmp_path: Path) -> None:
    shell = LocalShell()
    with pytest.raises(ClusterOutcomeUnknown):
        await shell.run(f"sh -c 'echo $$ > {tmp_path}/pid; sleep 1000'; true", timeout_s=5)
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


def is_running(pid: int) -> bool:
    """Return whether a process runs. A zombie has ended, although not every init process collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
