"""On this computer a script runs in its own directory, as `python script.py` would."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.cli.conftest import Shell

WHERE = ("import os, sys", "print(os.getcwd(), sys.argv[0], __file__)")
GIB = 1 << 30


def plain_python(directory: Path, script: str) -> bytes:
    return subprocess.run(
        [sys.executable, script], cwd=directory, capture_output=True, check=True, timeout=60
    ).stdout


def names_below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*")}


def attempt_directory(anygpu: Shell, job: str = "last") -> Path:
    attempt = anygpu.json("show", job)["attempts"][-1]
    return Path(anygpu.environ["ANYGPU_STATE"]) / "attempts" / str(attempt["name"])


def test_a_file_that_the_script_writes_is_beside_the_script(anygpu: Shell) -> None:
    anygpu.write("train.py", "open('model.pt', 'w').write('weights')")
    anygpu("run", "train.py")
    assert (anygpu.directory / "model.pt").read_text() == "weights"
    assert names_below(anygpu.directory) == {"train.py", "model.pt"}


def test_scripts_elsewhere_run_in_the_current_directory(anygpu: Shell) -> None:
    other = anygpu.directory.parent / "x"
    other.mkdir()
    (other / "train.py").write_text("\n".join((*WHERE, "import beside; print(beside.NAME)")))
    (other / "beside.py").write_text("NAME = 'beside the script'")
    for script in ("../x/train.py", str(other / "train.py"), "../x/../x/train.py"):
        said = anygpu("run", script).stdout
        assert said == plain_python(anygpu.directory, script)
        assert b"beside the script" in said


def test_paths_of_scripts_work_when_the_directory_is_copied_too(alone: Shell) -> None:
    config = Path(alone.environ["ANYGPU_CONFIG"])
    config.parent.mkdir()
    config.write_text('[backends.lab]\nkind = "ssh"\nhosts = ["nobody@127.0.0.1:1"]\n')
    alone.write("train.py", *WHERE)
    linked = alone.directory.parent / "linked"
    linked.symlink_to(alone.directory)
    here = str(alone.directory)
    for words in (f"{here}/train.py",), ("--workdir", str(linked), "train.py"), ("../linked/train.py",):
        said = alone("run", *words).stdout.decode()
        assert said.split()[0] == here
        spec = alone.json("show", "last")["spec"]
        assert spec["workdir"]["manifest"]
        assert Path(here, spec["script"]).samefile(alone.directory / "train.py")


def test_links_and_data_outside_are_used_as_they_are(anygpu: Shell) -> None:
    data = anygpu.directory.parent / "data"
    data.mkdir()
    (data / "a.csv").write_text("1,2")
    (anygpu.directory / "linked").symlink_to(data)
    (anygpu.directory / "gone").symlink_to("/nowhere")
    anygpu.write("t.py", "print(open('linked/a.csv').read(), open('../data/a.csv').read())")
    assert anygpu("run", "t.py").stdout == b"1,2 1,2\n"


def test_a_linked_script_runs(anygpu: Shell) -> None:
    (anygpu.directory / "real").mkdir()
    anygpu.write("real/train.py", *WHERE)
    (anygpu.directory / "train.py").symlink_to("real/train.py")
    assert anygpu("run", "train.py").stdout == plain_python(anygpu.directory, "train.py")


def test_a_large_directory_is_neither_refused_nor_copied(anygpu: Shell) -> None:
    with (anygpu.directory / "data.bin").open("wb") as file:
        file.truncate(GIB * 3 // 2)
    (anygpu.directory / "secret").mkdir(mode=0o000)
    anygpu.write("t.py", "import os; print(os.path.getsize('data.bin'))")
    assert anygpu("run", "t.py").stdout == f"{GIB * 3 // 2}\n".encode()
    kept = [path for path in attempt_directory(anygpu).rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in kept if path.name in ("t.py", "data.bin")]
    workdir = anygpu.json("show", "last")["spec"]["workdir"]
    assert workdir == {"path": str(anygpu.directory)}
    (anygpu.directory / "secret").chmod(0o700)


def test_a_job_file_runs_in_its_own_directory(anygpu: Shell) -> None:
    (anygpu.directory / "jobs" / "src").mkdir(parents=True)
    anygpu.write("jobs/train.py", *WHERE)
    anygpu.write("jobs/src/deep.py", *WHERE)
    anygpu.write("jobs/job.yaml", "script: train.py")
    anygpu.write("jobs/deep.yaml", "script: deep.py", "workdir: src")
    assert anygpu("run", "jobs/job.yaml").stdout == plain_python(anygpu.directory / "jobs", "train.py")
    assert anygpu("run", "jobs/deep.yaml").stdout == plain_python(anygpu.directory / "jobs/src", "deep.py")


def test_the_home_directory_works(anygpu: Shell) -> None:
    home = Path(anygpu.environ["HOME"])
    (home / "in_home.py").write_text("\n".join(WHERE))
    at_home = Shell(home, anygpu.environ)
    assert at_home("run", "in_home.py").stdout == plain_python(home, "in_home.py")


def test_a_command_runs_here_too(anygpu: Shell) -> None:
    anygpu("run", "--", "sh", "-c", "echo made > made.txt")
    assert (anygpu.directory / "made.txt").read_text() == "made\n"


def test_a_directory_that_is_gone_is_reported(anygpu: Shell) -> None:
    body: dict[str, Any] = {"script": "t.py", "workdir": {"path": str(anygpu.directory / "gone")}}
    anygpu.write(
        "submit.py",
        "from anygpu.sdk import Platform",
        f"print(Platform().client.submit({body!r})['id'])",
    )
    done = subprocess.run(
        [sys.executable, "submit.py"],
        cwd=anygpu.directory,
        env=anygpu.environ,
        capture_output=True,
        check=True,
        timeout=60,
    )
    job = done.stdout.decode().strip()
    anygpu("logs", "-f", job)
    failure = anygpu.json("show", job)["failure"]
    assert f"the working directory {body['workdir']['path']} does not exist" in failure["message"]


def test_a_snapshot_runs_in_a_copy(anygpu: Shell) -> None:
    anygpu.write("t.py", "import os; print(os.getcwd()); open('made', 'w').close()")
    said = anygpu("run", "--snapshot", "t.py").stdout.decode().strip()
    assert Path(said) != anygpu.directory
    assert said.startswith(os.path.realpath(anygpu.environ["ANYGPU_STATE"]))


def test_no_workdir_runs_in_an_empty_directory(anygpu: Shell) -> None:
    anygpu.write("job.yaml", "command: [ls]")
    assert anygpu("run", "--no-workdir", "job.yaml").stdout == b""


def test_only_checkpoints_of_this_run_are_saved(anygpu: Shell) -> None:
    (anygpu.directory / "ckpt").mkdir()
    anygpu.write("ckpt/yesterday.pt", "old")
    anygpu.write("t.py", "open('ckpt/today.pt', 'w').write('new')", "open('out.txt', 'w').write('o')")
    anygpu.write("old.txt", "old")
    anygpu("run", "--checkpoint", "ckpt/*.pt", "--output", "*.txt", "t.py")
    listed = anygpu.json("fetch", "--checkpoint", "--list", "last")["files"]
    assert [Path(file["name"]).name for file in listed] == ["today.pt"]
    assert [file["name"] for file in anygpu.json("fetch", "--list", "last")["files"]] == ["out.txt"]
    assert (anygpu.directory / "out.txt").exists()


def test_a_resumed_job_keeps_the_files_of_the_user(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import os, pathlib",
        "path = pathlib.Path('ckpt/last.pt')",
        "print('found', path.read_text() if path.exists() else None)",
        "print('resume', os.environ.get('ANYGPU_RESUME_PATH') and open(os.environ['ANYGPU_RESUME_PATH']).read())",
        "path.parent.mkdir(exist_ok=True)",
        "path.write_text('saved')",
    )
    anygpu("run", "-n", "saving", "--checkpoint", "ckpt/*.pt", "t.py")
    anygpu.write("ckpt/last.pt", "edited by the user")
    resumed = anygpu("resume", "saving").stdout
    assert b"found saved\nresume saved\n" in resumed
    assert (
        b"ckpt/last.pt existed with other content than in the checkpoint. It was renamed to last.pt.anygpu-"
        in resumed
    )
    (kept,) = anygpu.directory.glob("ckpt/last.pt.anygpu-*")
    assert kept.read_text() == "edited by the user\n"
    (anygpu.directory / "ckpt" / "last.pt").unlink()
    assert b"found saved\nresume saved\n" in anygpu("resume", "saving").stdout
