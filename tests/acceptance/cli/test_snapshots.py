"""Jobs that may run elsewhere take a snapshot of their directory along, and only new content is sent."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.cli.conftest import Shell

from anygpu.testing.servers.ssh_host import SshTestHost

WHERE = "import os, sys; print(os.getcwd(), sys.argv[0])"


async def run(shell: Shell, *words: str, code: int = 0) -> tuple[str, str]:
    done = await asyncio.to_thread(shell, *words, code=code)
    return done.stdout.decode(), done.stderr.decode()


def stored_blobs(shell: Shell) -> dict[str, int]:
    folder = Path(shell.environ["ANYGPU_STATE"]) / "blobs"
    return {path.name: path.stat().st_size for path in folder.rglob("uploads/*") if path.is_file()}


def workdir_of(shell: Shell, job: str = "last") -> dict[str, Any]:
    workdir: dict[str, Any] = shell.json("show", job)["spec"]["workdir"]
    return workdir


def test_only_changed_files_are_sent_again(alone: Shell) -> None:
    (alone.directory / "src").mkdir()
    for number in range(20):
        alone.write(f"src/part{number}.py", f"VALUE = {number}")
    (alone.directory / "weights.bin").write_bytes(bytes(range(256)) * 8000)
    (alone.directory / "linked.py").symlink_to("src/part0.py")
    (alone.directory / "tool.sh").write_text("echo tool")
    (alone.directory / "tool.sh").chmod(0o755)
    script = "import os, linked, src.part3; print(src.part3.VALUE, os.path.islink('linked.py'),"
    alone.write("t.py", script, "os.access('tool.sh', os.X_OK), os.path.getsize('weights.bin'))")
    assert alone("run", "--snapshot", "t.py").stdout == b"3 True True 2048000\n"
    first, manifest = stored_blobs(alone), workdir_of(alone)["manifest"]
    assert alone("run", "--snapshot", "t.py").stdout == b"3 True True 2048000\n"
    assert workdir_of(alone)["manifest"] == manifest
    assert stored_blobs(alone) == first
    alone.write("src/part3.py", "VALUE = 'new'")
    assert alone("run", "--snapshot", "t.py").stdout == b"new True True 2048000\n"
    added = set(stored_blobs(alone)) - set(first)
    assert len(added) == 3  # the changed file, the new list of files, and the archive for the agent


def test_equal_files_are_stored_once(alone: Shell) -> None:
    for name in ("a", "b", "c"):
        (alone.directory / name).write_bytes(b"same content" * 1000)
    alone.write("t.py", "print(open('a').read() == open('b').read() == open('c').read())")
    assert alone("run", "--snapshot", "t.py").stdout == b"True\n"
    assert list(stored_blobs(alone).values()).count(12_000) == 1


async def test_with_another_machine_a_job_runs_in_place_here_and_its_copy_there(
    alone: Shell, lab: SshTestHost
) -> None:
    alone.write("t.py", WHERE)
    here, _ = await run(alone, "run", "--set", "placement.forbidden=lab", "t.py")
    assert "manifest" not in workdir_of(alone)
    assert here == f"{alone.directory} t.py\n"
    both, _ = await run(alone, "run", "t.py")
    assert both == here
    assert "manifest" in workdir_of(alone)
    there, _ = await run(alone, "run", "--on", "lab", "t.py")
    assert there.startswith(str(lab.home))


async def test_a_script_elsewhere_runs_in_place_here_and_in_a_copy_there(
    alone: Shell, lab: SshTestHost
) -> None:
    other = alone.directory.parent / "x"
    other.mkdir()
    (other / "t.py").write_text(f"{WHERE}; import beside; open('made.txt', 'w').write('made')")
    (other / "beside.py").write_text("")
    here, _ = await run(alone, "run", "../x/t.py")
    assert here == f"{alone.directory} ../x/t.py\n"
    workdir = workdir_of(alone)
    assert (workdir["path"], workdir["root"]) == (str(alone.directory), str(other))
    (alone.directory / "made.txt").unlink()
    there, _ = await run(alone, "run", "--on", "lab,local", "../x/t.py")
    assert there.startswith(str(lab.home))
    assert (alone.directory / "made.txt").read_text() == "made"


async def test_a_directory_that_cannot_be_copied_still_runs_here(alone: Shell, lab: SshTestHost) -> None:
    alone.write("t.py", "print('ran')")
    (alone.directory / "data").symlink_to("/etc")
    said, told = await run(alone, "run", "t.py")
    assert said == "ran\n"
    assert "The job can run on this computer only" in told
    assert "The link data points outside the working directory, to /etc." in told
    assert "--dataset" in told
    _, refused = await run(alone, "run", "--on", "lab", "t.py", code=73)
    assert "The link data points outside" in refused
    home = Shell(Path(alone.environ["HOME"]), alone.environ)
    home.write("in_home.py", "print('home')")
    assert (await run(home, "run", "in_home.py"))[0] == "home\n"


def test_the_limit_is_stated_with_the_largest_directories(alone: Shell) -> None:
    alone.environ["ANYGPU_LIMITS__SNAPSHOT_BYTES"] = "2000000"
    (alone.directory / "data").mkdir()
    with (alone.directory / "data" / "big.bin").open("wb") as file:
        file.truncate(3_000_000)
    alone.write("t.py", "print('ran')")
    told = alone("run", "--snapshot", "t.py", code=73).stderr.decode()
    assert re.search(r"2\.9 MiB  data/big\.bin", told)
    assert "'/data/big.bin'" in told
    assert "limits.snapshot_bytes" in told
    alone.write(".anygpuignore", "/data/")
    assert alone("run", "--snapshot", "t.py").stdout == b"ran\n"


def test_a_snapshot_survives_garbage_collection_and_its_archive_is_built_again(alone: Shell) -> None:
    alone.write("t.py", "import anygpu; open('c', 'w').close(); anygpu.checkpoint('c', step=1, wait=True)")
    alone("run", "-n", "first", "--snapshot", "t.py")
    folder = Path(alone.environ["ANYGPU_STATE"]) / "blobs"
    archives = [path for path in folder.rglob("uploads/*") if path.read_bytes()[:2] == b"\x1f\x8b"]
    assert len(archives) == 1
    archives[0].unlink()
    alone("resume", "first")
    assert archives[0].exists()


def test_batches_and_missing_contents_are_checked(alone: Shell) -> None:
    alone("up", "-d")
    alone.write(
        "ask.py",
        "import hashlib, json",
        "from anygpu.sdk import Platform",
        "client = Platform().client",
        "data, digest = b'hello', hashlib.sha256(b'hello').hexdigest()",
        "print(json.dumps(client.missing_uploads([digest]) == [digest]))",
        "client.upload_batch([(digest, data)])",
        "print(json.dumps(client.missing_uploads([digest])))",
        "for wrong in ([(digest, b'other')], [('x', data)]):",
        "    try: client.upload_batch(wrong)",
        "    except Exception as error: print(json.dumps(error.code))",
        "manifest = json.dumps({'files': [{'path': 'a', 'size': 3, 'sha256': '0' * 64}]}).encode()",
        "digest = hashlib.sha256(manifest).hexdigest()",
        "client.upload(digest, manifest)",
        "workdir = {'snapshot': True, 'manifest': digest}",
        "try: client.submit({'command': ['true'], 'workdir': workdir})",
        "except Exception as error: print(json.dumps(str(error)))",
    )
    done = subprocess.run(
        [sys.executable, "ask.py"],
        cwd=alone.directory,
        env=alone.environ,
        capture_output=True,
        timeout=60,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[:4] == [True, [], "invalid_spec", "invalid_spec"], done.stderr.decode()
    assert "the contents of 1 files were not uploaded, such as 'a'" in answers[4]
