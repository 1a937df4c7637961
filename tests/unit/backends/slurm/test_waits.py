"""How long a job would wait, by the answers of `sbatch --test-only`."""

from pathlib import Path

import pytest

from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import SECTION
from anygpu.backends.slurm.script import ClusterPlace
from anygpu.backends.slurm.shell import ClusterOutcomeUnknown, LocalShell, ShellResult
from anygpu.backends.slurm.waits import (
    MAX_TESTS,
    TESTS_LIMIT_S,
    UNKNOWN_WAIT_S,
    UNTESTED,
    ExpectedWait,
    WaitEstimator,
    read_answer,
)
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

NOW_S = 1_760_000_000
STARTS = "sbatch: Job 7 to start at 1760000600 using 2 processors on nodes n1 in partition gpu\n"
REFUSED = "allocation failure: Requested node configuration is not available\n"
TEMPORARY = [
    "allocation failure: Unable to contact slurm controller (connect failure)\n",
    "allocation failure: Socket timed out on send/recv operation\n",
    "allocation failure: Zero Bytes were transmitted or received\n",
    "allocation failure: Slurm backup controller in standby mode\n",
    "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n",
    "sbatch: error: AssocMaxSubmitJobLimit\n"
    "allocation failure: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
]


def test_a_start_time_is_a_wait_from_now() -> None:
    assert read_answer(STARTS, NOW_S) == ExpectedWait(600.0)
    assert read_answer(STARTS, NOW_S + 900) == ExpectedWait(0.0)


def test_without_a_start_time_the_wait_is_unknown() -> None:
    assert read_answer("", NOW_S) == ExpectedWait(UNKNOWN_WAIT_S)
    assert read_answer("sbatch: please wait\n", NOW_S) == ExpectedWait(UNKNOWN_WAIT_S)


def test_a_refusal_is_passed_on_without_control_characters() -> None:
    wait = read_answer(f"note\n{REFUSED}", NOW_S)
    assert wait.refused == "Slurm refuses the request: Requested node configuration is not available"
    assert "\x1b" not in read_answer("sbatch: error: \x1b[31mno\n", NOW_S).refused


def test_an_error_of_sbatch_itself_is_a_refusal() -> None:
    reason = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
    assert read_answer(f"sbatch: fatal: {reason}\n", NOW_S).refused == f"Slurm refuses the request: {reason}"


@pytest.mark.parametrize("text", TEMPORARY)
def test_an_answer_that_will_change_by_itself_is_no_refusal(text: str) -> None:
    assert read_answer(text, NOW_S) == ExpectedWait(UNKNOWN_WAIT_S, may_be_kept=False)


@pytest.mark.parametrize("name", ["QOSMaxWallDurationPerJobLimit", "QOSMaxMemoryPerJob", "QOSMinGRES"])
def test_a_job_that_exceeds_a_limit_alone_is_refused_with_the_name_of_the_limit(name: str) -> None:
    wait = read_answer(
        f"sbatch: error: {name}\n"
        "allocation failure: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
        NOW_S,
    )
    assert wait.refused.startswith(f"Slurm refuses the request: {name}: ")
    assert wait.may_be_kept


@pytest.mark.parametrize(
    "reason",
    [
        "Requested nodes are busy",
        "Required node not available (down, drained or reserved)",
        "Required partition not available (inactive or drain)",
    ],
)
def test_a_job_that_slurm_would_queue_is_not_refused(reason: str) -> None:
    assert read_answer(f"allocation failure: {reason}\n", NOW_S) == ExpectedWait(UNKNOWN_WAIT_S)


class RecordingShell:
    """Gives the same answer for every offer, and keeps the programs it was asked to run."""

    name = "login"

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.programs: list[str] = []

    async def run(self, program: str, data: bytes = b"", *, timeout_s: float = 60.0) -> ShellResult:
        self.programs.append(program)
        count = program.count("sbatch --test-only")
        return ShellResult(0, "".join(f"{SECTION}{number}\n{self.answer}" for number in range(count)), "")

    async def close(self) -> None:
        return None


def offers(*names: str) -> list[Offer]:
    return [Offer(backend="lab", name=name, cpus=4) for name in names]


async def test_all_offers_are_asked_for_in_one_program_and_remembered() -> None:
    shell = RecordingShell(STARTS)
    estimator = WaitEstimator(shell, SlurmOptions())
    place = ClusterPlace(root="/home/ada", owner="abc")
    need = Resources()
    for _ in range(2):
        waits = await estimator.waits(offers("gpu", "long"), need, place, NOW_S)
        assert waits == {"gpu": ExpectedWait(600.0), "long": ExpectedWait(600.0)}
    assert len(shell.programs) == 1
    await estimator.waits(offers("gpu", "new"), need, place, NOW_S)
    assert [program.count("sbatch --test-only") for program in shell.programs] == [2, 1]


async def test_offers_that_one_query_leaves_out_have_an_unknown_wait_until_the_next() -> None:
    shell = RecordingShell(STARTS)
    estimator = WaitEstimator(shell, SlurmOptions())
    place = ClusterPlace(root="/home/ada", owner="abc")
    names = [f"p{number}" for number in range(MAX_TESTS + 3)]
    unknown = dict.fromkeys(names[MAX_TESTS:], UNTESTED)
    waits = await estimator.waits(offers(*names), Resources(), place, NOW_S)
    assert waits == dict.fromkeys(names[:MAX_TESTS], ExpectedWait(600.0)) | unknown
    waits = await estimator.waits(offers(*names), Resources(), place, NOW_S)
    assert waits == dict.fromkeys(names, ExpectedWait(600.0))
    assert [program.count("sbatch --test-only") for program in shell.programs] == [MAX_TESTS, 3]


@pytest.mark.parametrize("text", TEMPORARY)
async def test_slurm_is_asked_again_after_a_temporary_answer(text: str) -> None:
    shell = RecordingShell(text)
    estimator = WaitEstimator(shell, SlurmOptions())
    place = ClusterPlace(root="/home/ada", owner="abc")
    [wait] = (await estimator.waits(offers("gpu"), Resources(), place, NOW_S)).values()
    assert (wait.wait_s, wait.refused) == (UNKNOWN_WAIT_S, "")
    shell.answer = STARTS
    assert await estimator.waits(offers("gpu"), Resources(), place, NOW_S) == {"gpu": ExpectedWait(600.0)}
    shell.answer = text
    assert await estimator.waits(offers("gpu"), Resources(), place, NOW_S) == {"gpu": ExpectedWait(600.0)}


class SilentShell(RecordingShell):
    """Does not answer."""

    async def run(self, program: str, data: bytes = b"", *, timeout_s: float = 60.0) -> ShellResult:
        self.programs.append(program)
        raise ClusterOutcomeUnknown("A command of Slurm did not end")


async def test_a_slurm_that_does_not_answer_is_not_asked_again_for_a_minute() -> None:
    shell = SilentShell(STARTS)
    estimator = WaitEstimator(shell, SlurmOptions())
    place = ClusterPlace(root="/home/ada", owner="abc")
    for need in (Resources(), Resources(), Resources(cpus=2)):
        assert await estimator.waits(offers("gpu"), need, place, NOW_S) == {"gpu": UNTESTED}
    assert len(shell.programs) == 1


async def test_tests_for_which_the_time_did_not_suffice_follow_in_the_next_query(tmp_path: Path) -> None:
    clock, sbatch = tmp_path / "date", tmp_path / "sbatch"  # each test takes half of the time
    (tmp_path / "now").write_text(f"{NOW_S}\n")
    clock.write_text(f"#!/bin/sh\ncat {tmp_path}/now\n")
    sbatch.write_text(
        f"#!/bin/sh\nnow=$(($(date) + {TESTS_LIMIT_S // 2})); echo $now > {tmp_path}/now\n"
        f"echo to start at {NOW_S + 600}\n"
    )
    for program in (clock, sbatch):
        program.chmod(0o755)
    estimator = WaitEstimator(LocalShell({"PATH": f"{tmp_path}:/usr/bin:/bin"}), SlurmOptions())
    place = ClusterPlace(root="/home/ada", owner="abc")
    known = ExpectedWait(600.0)
    waits = await estimator.waits(offers("a", "b", "c"), Resources(), place, NOW_S)
    assert waits == {"a": known, "b": known, "c": UNTESTED}
    waits = await estimator.waits(offers("a", "b", "c"), Resources(), place, NOW_S)
    assert waits == {"a": known, "b": known, "c": known}
