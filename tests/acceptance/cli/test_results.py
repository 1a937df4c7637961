"""Files that a script creates in a copy come home."""

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell

from anygpu.testing.servers.ssh_host import SshTestHost


async def test_results_of_a_host_come_home(alone: Shell, lab: SshTestHost) -> None:
    edited = alone.directory.parent / "edited"
    alone.write(
        "train.py",
        "import os, time",
        f"while not os.path.exists({str(edited)!r}): time.sleep(0.05)",
        "os.makedirs('runs/a')",
        "open('runs/a/model.pt', 'w').write('weights')",
        "open('log.csv', 'a').write('2')",
        "open('notes.txt', 'w').write('from the job')",
    )
    alone.write("log.csv", "1")
    alone.write("notes.txt", "before")
    alone.write("untouched.txt", "as it was")
    started = await asyncio.to_thread(
        alone.start, "run", "--on", "lab", "train.py", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(3000):  # the user edits a file after the submission
        jobs = (await asyncio.to_thread(alone.json, "ls", "--all"))["jobs"]
        if jobs:
            break
        await asyncio.sleep(0.01)
    alone.write("notes.txt", "edited meanwhile")
    edited.touch()
    _, said = await asyncio.to_thread(started.communicate, timeout=120)
    here = alone.directory
    assert started.returncode == 0, said.decode()
    assert (here / "runs" / "a" / "model.pt").read_text() == "weights"
    assert (here / "log.csv").read_text() == "1\n2"
    assert (here / "notes.txt").read_text() == "edited meanwhile\n"
    [other] = here.glob("notes.txt.anygpu-*")
    assert other.read_text() == "from the job"
    assert (
        f"{here / 'notes.txt'} already existed and was not replaced; the job's file was saved as {other.name}."
        in said.decode()
    )
    assert b"Fetched 3 files" in said
    names = {path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()}
    assert names == {
        "train.py",
        "log.csv",
        "notes.txt",
        "untouched.txt",
        "runs/a/model.pt",
        other.name,
    }


def test_a_snapshot_here_brings_its_results_home(anygpu: Shell) -> None:
    anygpu.write("t.py", "open('made.txt', 'w').write('made')", "open('t.py', 'a').write('# changed')")
    code = (anygpu.directory / "t.py").read_text()
    done = anygpu("run", "--json", "--snapshot", "t.py")
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert (anygpu.directory / "made.txt").read_text() == "made"
    assert (anygpu.directory / "t.py").read_text() == code
    assert {Path(each["path"]).name[:8] for each in messages if each["kind"] == "fetched"} == {
        "made.txt",
        "t.py.any",
    }
    assert messages[-1]["kind"] == "end"


def test_configuration_of_other_programs_is_not_written(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import os",
        "os.makedirs('sub')",
        "open('.envrc', 'w').write('x')",
        "open('sub/ok', 'w').close()",
    )
    done = anygpu("run", "--snapshot", "t.py")
    assert not (anygpu.directory / ".envrc").exists()
    assert (anygpu.directory / "sub" / "ok").exists()
    assert b"1 file that may configure other programs, such as .envrc" in done.stderr


def test_a_failed_job_brings_its_results_home_and_keeps_its_exit_code(anygpu: Shell) -> None:
    anygpu.write("t.py", "open('partial.txt', 'w').write('p')", "raise SystemExit(3)")
    anygpu("run", "--snapshot", "t.py", code=3)
    assert (anygpu.directory / "partial.txt").read_text() == "p"


def test_with_outputs_exactly_these_files_are_results(anygpu: Shell) -> None:
    anygpu.write("t.py", "open('a.txt', 'w').close()", "open('b.bin', 'w').close()")
    anygpu("run", "--snapshot", "--output", "*.txt", "t.py")
    assert [file["name"] for file in anygpu.json("fetch", "--list")["files"]] == ["a.txt"]


def test_a_detached_job_leaves_its_results_to_fetch(anygpu: Shell) -> None:
    anygpu.write("t.py", "open('made.txt', 'w').write('made')")
    job = anygpu.json("run", "-d", "--snapshot", "t.py")["id"]
    anygpu("logs", "-f", job)
    assert not (anygpu.directory / "made.txt").exists()
    assert b"made.txt" in anygpu("fetch", job).stdout
    anygpu("fetch", job, "--to", ".")
    assert (anygpu.directory / "made.txt").read_text() == "made"


def test_a_result_over_the_limit_is_named_in_the_log(alone: Shell) -> None:
    alone.environ["ANYGPU_AGENT__RESULTS_BYTES"] = "1000"
    alone.write("t.py", "open('big.bin', 'wb').write(bytes(5000))", "open('small.txt', 'w').write('s')")
    done = alone("run", "--snapshot", "t.py")
    assert b"1 new files" in done.stdout
    assert b"big.bin" in done.stdout
    assert [file["name"] for file in alone.json("fetch", "--list")["files"]] == ["small.txt"]
    assert not (alone.directory / "big.bin").exists()


@pytest.mark.extended
def test_an_interrupted_download_is_continued_by_fetch(anygpu: Shell) -> None:
    anygpu.write("t.py", "for n in range(300): open(f'r{n}.bin', 'wb').write(bytes([n % 256]) * 1000)")
    running = anygpu.start("run", "--snapshot", "t.py", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for _ in range(12_000):
            if any(anygpu.directory.glob("r*.bin")):
                break
            assert running.poll() is None
            time.sleep(0.01)
        os.kill(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=60)
    finally:
        running.kill()
    assert b"anygpu fetch" in said
    assert b"Traceback" not in said
    assert len(list(anygpu.directory.glob("r*.bin"))) < 300
    anygpu("fetch", "last", "--to", ".")
    assert len(list(anygpu.directory.glob("r*.bin"))) == 300
