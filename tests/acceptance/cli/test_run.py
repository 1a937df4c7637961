"""`anygpu run`, as people meet it."""

import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell

COUNTING = (
    "import sys, time",
    "for n in range(int(sys.argv[1])):",
    "    print('line', n, flush=True)",
    "    time.sleep(float(sys.argv[2]))",
)


def test_a_script_runs_and_its_raw_output_is_printed_unchanged(anygpu: Shell) -> None:
    anygpu.write(
        "t.py", "import sys", "sys.stdout.buffer.write(bytes(range(256)) + b'\\r10%\\r20%\\nno end')"
    )
    done = anygpu("run", "--raw", "t.py")
    assert done.stdout == bytes(range(256)) + b"\r10%\r20%\nno end"
    assert b"Completed" in done.stderr


def test_arguments_environment_and_files_reach_the_script(anygpu: Shell) -> None:
    (anygpu.directory / "pkg").mkdir()
    anygpu.write("pkg/helper.py", "NAME = 'helped'")
    anygpu.write(
        "t.py", "import os, sys", "from pkg.helper import NAME", "print(sys.argv[1:], os.environ['A'], NAME)"
    )
    done = anygpu("run", "--env", "A=x y", "t.py", "--lr", "0.1", "--name", "mine")
    assert done.stdout == b"['--lr', '0.1', '--name', 'mine'] x y helped\n"


def test_a_script_that_needs_a_gpu_starts_on_a_machine_without_one_with_a_warning(anygpu: Shell) -> None:
    anygpu.write("train.py", "def train(model):", "    model.cuda()", "print('ran')")
    done = anygpu("run", "train.py")
    warnings = [line for line in done.stderr.decode().splitlines() if "GPU" in line]
    assert len(warnings) == 1
    assert "has no GPU, and the code needs one: train.py:2 calls .cuda()" in warnings[0]
    assert done.stdout == b"ran\n"
    assert b"GPU" not in anygpu("run", "--json", "--detach", "train.py").stderr
    anygpu.write(
        "careful.py", "import torch", "def f(m):", "    return m.cuda() if torch.cuda.is_available() else m"
    )
    assert b"GPU" not in anygpu("run", "--detach", "careful.py").stderr


@pytest.mark.parametrize("code", [1, 3, 125])
def test_the_exit_code_is_that_of_the_script(anygpu: Shell, code: int) -> None:
    done = anygpu("run", "--no-workdir", "--", "sh", "-c", f"exit {code}", code=code)
    assert f"exited with code {code}".encode() in done.stderr


def test_a_script_that_crashes_ends_like_in_a_shell(anygpu: Shell) -> None:
    anygpu("run", "--no-workdir", "--", "sh", "-c", "kill -SEGV $$", code=139)


def test_a_time_limit_is_124(anygpu: Shell) -> None:
    anygpu("run", "--no-workdir", "--timeout", "0.5s", "--", "sleep", "30", code=124)


def test_an_invalid_job_file_is_reported_with_line_and_suggestion(anygpu: Shell) -> None:
    anygpu.write("t.py", "print(1)")
    anygpu.write("job.yaml", "script: t.py", "resources:", "  gpus: 2")
    done = anygpu("run", "job.yaml", code=65)
    assert b"job.yaml:3 resources.gpus" in done.stderr
    assert b"gpu" in done.stderr.rpartition(b"did you mean")[2]


def test_the_same_key_is_the_same_job(anygpu: Shell) -> None:
    anygpu.write("t.py", "print(1)")
    first, second = (anygpu.json("run", "-d", "--key", "only-once", "t.py") for _ in range(2))
    assert first["id"] == second["id"]
    assert (first["created"], second["created"]) == (True, False)


def test_the_last_json_line_has_the_exit_code(anygpu: Shell) -> None:
    import json

    anygpu.write("t.py", "print('hello'); raise SystemExit(4)")
    done = anygpu("run", "--json", "t.py", code=4)
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert messages[0]["kind"] == "submitted"
    assert messages[-1] == {"kind": "end", "status": "failed", "exit_code": 4}
    assert "".join(each["data"] for each in messages if each["kind"] == "log") == "hello\n"


def test_without_a_server_one_is_started_and_said(alone: Shell) -> None:
    alone.write("t.py", "print('hello')")
    done = alone("run", "t.py")
    assert done.stdout == b"hello\n"
    assert b"Starting one" in done.stderr
    assert b"anygpu down" in done.stderr


def test_two_runs_at_once_start_one_server(alone: Shell) -> None:
    alone.write("t.py", "print('hello')")
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: alone("run", "t.py"), range(3)))
    assert [each.stdout for each in results] == [b"hello\n"] * 3
    assert sum(b"Server started" in each.stderr for each in results) >= 1
    log = (Path(alone.environ["ANYGPU_STATE"]) / "server.log").read_text()
    assert log.count('"agent_url"') == 1
    assert len(alone.json("ls")["jobs"]) == 3


def test_a_server_that_cannot_start_shows_why(alone: Shell) -> None:
    alone.write("t.py", "print(1)")
    alone.environ["ANYGPU_SERVER__HOST"] = "192.0.2.1"
    done = alone("run", "t.py", code=69)
    assert b"server.log" in done.stderr


def test_a_followed_run_survives_a_killed_server(alone: Shell) -> None:
    alone.write("t.py", *COUNTING)
    with alone.start("run", "t.py", "30", "0.1", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"line 0\n"
        os.kill(alone.server_pid(), signal.SIGKILL)
        rest, said = running.communicate(timeout=60)
    assert rest.decode().splitlines() == [f"line {n}" for n in range(1, 30)]
    assert running.returncode == 0
    assert b"connecting again" in said


def test_a_killed_trainer_resumes_from_its_checkpoint(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import os, pathlib, signal, anygpu",
        "step = int(pathlib.Path(anygpu.resume_path()).read_text()) if anygpu.resume_path() else 0",
        "print('from', step, flush=True)",
        "while step < 6:",
        "    step += 1",
        "    pathlib.Path('state').write_text(str(step))",
        "    anygpu.checkpoint('state', step=step, wait=True)",
        "    if step == 3: os.kill(os.getpid(), signal.SIGKILL)",
        "print('done', flush=True)",
    )
    done = anygpu("run", "t.py")
    printed = [line for line in done.stdout.splitlines() if not line.startswith(b"[anygpu]")]
    assert printed == [b"from 0", b"from 3", b"done"]
    assert b"the newest checkpoint is of step 3" in done.stderr
    assert b"Resumed from the checkpoint of step 3; the first reported step is 4." in done.stderr


def test_a_script_that_is_killed_at_the_same_step_twice_is_not_started_a_third_time(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import os, signal, anygpu",
        "for step in range(1, 6): anygpu.log(loss=1, step=step)",
        "data = bytearray(b'x') * (300 * 2**20)",
        "os.kill(os.getpid(), signal.SIGKILL)",
    )
    said = anygpu("run", "-n", "killed-twice", "t.py", code=137).stderr.decode()
    job = anygpu.json("show", "killed-twice")
    assert len(job["attempts"]) == 2
    assert job["failure"]["code"] == "killed"
    pattern = r"the process was killed by signal 9; its memory peaked at 0\.[3-9] of [\d.]+ GiB"
    assert re.match(
        rf"{pattern}; the job is not tried again, because it failed twice at the same point$",
        job["failure"]["message"],
    ), job["failure"]
    assert re.search(pattern, said)


RESTARTS = (
    "import os, pathlib, signal, time",
    "first = not pathlib.Path(os.environ['MARK']).exists()",
    "pathlib.Path(os.environ['MARK']).touch()",
    "pathlib.Path('ckpt').mkdir(exist_ok=True)",
    "for epoch in range(1, 7):",
    "    pathlib.Path(f'ckpt/{epoch}.pt').write_text(str(epoch))",
    "    {line}",
    "    time.sleep(0.5)",
    "    if epoch == 5 and first:",
    "        time.sleep(3)",
    "        os.kill(os.getpid(), signal.SIGKILL)",
)


@pytest.mark.parametrize(
    "reports",
    [
        pytest.param(True, id="reports its epochs"),
        pytest.param(False, id="reports nothing", marks=pytest.mark.extended),
    ],
)
def test_a_script_that_does_not_resume_is_never_said_to_have_resumed(
    anygpu: Shell, tmp_path: Path, reports: bool
) -> None:
    line = "print(f'epoch {epoch}/6 loss 0.5', flush=True)" if reports else "pass"
    anygpu.write("t.py", *(each.replace("{line}", line) for each in RESTARTS))
    mark = f"MARK={tmp_path / 'mark'}"
    name = f"restarts-{reports}"
    flags = ("--snapshot", "--checkpoint", "ckpt/*.pt", "--checkpoint-every", "1s", "--env", mark, "-n", name)
    done = anygpu("run", *flags, "t.py")
    assert b"resuming from" not in done.stdout + done.stderr
    job = anygpu.json("show", name)
    saved = job["attempts"][1]["resume_step"]
    if reports:
        assert b"Restarted from the beginning: " in done.stderr
        assert job["resume"]["state"] == "restarted"
        assert job["work_lost_s"] > 3
        assert f"the checkpoint of step {saved} was restored, but" in job["resume"]["message"]
        assert f"{saved} (restarted)".encode() in anygpu("show", name).stdout
    else:
        assert job["resume"]["state"] == "restored"
        assert "the script reports no steps, so resuming cannot be verified" in job["resume"]["message"]
    assert job["resume"]["message"].encode() in anygpu("show", name).stdout
    assert job["resume"]["message"].encode() in anygpu("explain", name).stdout


def test_a_closed_pipe_ends_the_run_quietly(anygpu: Shell) -> None:
    anygpu.write("t.py", *COUNTING)
    with anygpu.start(
        "run", "t.py", "200", "0.01", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read()
        assert running.wait(30) == 141
    assert b"Traceback" not in said


def test_an_interrupt_without_a_terminal_detaches(anygpu: Shell) -> None:
    anygpu.write("t.py", *COUNTING)
    with anygpu.start(
        "run", "-n", "left", "t.py", "20", "0.1", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 130
    assert b"Detached; the job keeps running" in said
    assert anygpu("logs", "-f", "left").stdout.endswith(b"line 19\n")


def test_the_first_line_comes_quickly(anygpu: Shell) -> None:
    anygpu.write("t.py", "print('hello')")
    anygpu("run", "t.py")
    took = []
    for _ in range(3):
        began = time.monotonic()
        with anygpu.start("run", "t.py", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == b"hello\n"
            took.append(time.monotonic() - began)
            running.wait(30)
    assert min(took) < 8  # the exact figure is the benchmark's; here only that nothing waits for a poll
