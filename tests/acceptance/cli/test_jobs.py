"""The other commands: look, change, fetch, secrets, servers."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell


def test_a_job_is_found_by_id_beginning_name_and_last(anygpu: Shell) -> None:
    anygpu.write("t.py", "print('here')")
    made = anygpu.json("run", "-d", "-n", "findme", "t.py")
    anygpu("logs", "-f", made["id"])
    ids = {anygpu.json("show", word)["id"] for word in (made["id"], made["id"][:13], "findme", "last")}
    assert ids == {made["id"]}
    short = anygpu("ls", "--name", "findme").stdout.decode().splitlines()[1].split()[0]
    assert (len(short), anygpu.json("show", short)["id"]) == (8, made["id"])
    anygpu("show", "nothing-like-it", code=66)
    assert anygpu("cancel", "findme").stdout == f"Already completed: {made['id']}.\n".encode()


def test_resuming_what_left_no_checkpoint_says_that_it_begins_again(anygpu: Shell) -> None:
    anygpu.write("t.py", "print('once more')")
    made = anygpu.json("run", "-d", "t.py")
    anygpu("logs", "-f", made["id"])
    again = anygpu("resume", made["id"])
    assert again.stdout == b"once more\n"
    assert b"saved no checkpoint, so the new job starts from the beginning" in again.stderr


def test_lists_are_filtered_by_status_tag_name_and_text(anygpu: Shell) -> None:
    anygpu.write("t.py", "print(1)")
    anygpu("run", "-n", "listed", "-t", "mark-a", "t.py")
    anygpu("run", "-n", "listed-too", "-t", "mark-b", "t.py")
    names = [job["name"] for job in anygpu.json("ls", "--tag", "mark-a")["jobs"]]
    assert names == ["listed"]
    assert [job["name"] for job in anygpu.json("ls", "--name", "listed-too")["jobs"]] == ["listed-too"]
    assert anygpu.json("ls", "--tag", "mark-a", "--status", "failed")["jobs"] == []
    assert b"listed-too" in anygpu("ls").stdout


def test_the_tail_of_a_log_has_the_lines_asked_for(anygpu: Shell) -> None:
    anygpu.write("t.py", "for n in range(5000): print('line', n)")
    anygpu("run", "-n", "tailed", "t.py")
    assert anygpu("logs", "tailed", "-n", "2").stdout == b"line 4998\nline 4999\n"
    assert anygpu("logs", "tailed", "-n", "0").stdout == b""
    assert anygpu("logs", "tailed").stdout == b"".join(b"line %d\n" % n for n in range(5000))
    assert anygpu.json("logs", "tailed", "-n", "1")["text"] == "line 4999\n"
    assert (
        anygpu("logs", "tailed", "--grep", "LINE 499", "-n", "2").stdout
        == b"4999:line 4998\n5000:line 4999\n"
    )
    assert anygpu("logs", "tailed", "--grep", r"^line \d$", "--regex").stdout.count(b"\n") == 10
    found = anygpu.json("logs", "tailed", "--grep", "line 42")["hits"]
    assert [hit["number"] for hit in found][:2] == [43, 421]
    assert len(found) == 111
    nothing = anygpu("logs", "tailed", "--grep", "LINE", "--case", code=1)
    assert (nothing.stdout, nothing.stderr) == (b"", b"anygpu: No line matches.\n")
    assert b"leave out --follow" in anygpu("logs", "-f", "tailed", "--grep", "x", code=2).stderr


def test_events_are_told_in_order_and_end_with_the_jobs_end(anygpu: Shell) -> None:
    anygpu.write("t.py", "print(1)")
    anygpu("run", "-n", "told", "t.py")
    stored = anygpu.json("events", "told")["events"]
    assert (stored[0]["type"], stored[-1]["type"]) == ("JobSubmitted", "JobCompleted")
    followed = [json.loads(line) for line in anygpu("events", "-f", "told", "--json").stdout.splitlines()]
    assert followed == stored
    assert [event["position"] for event in stored] == sorted(event["position"] for event in stored)


def test_a_cancelled_job_is_resumed_from_its_checkpoint_as_a_new_one(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import pathlib, time, anygpu",
        "step = int(pathlib.Path(anygpu.resume_path()).read_text()) if anygpu.resume_path() else 0",
        "print('from', step, flush=True)",
        "if step: raise SystemExit",
        "pathlib.Path('state').write_text('7')",
        "anygpu.checkpoint('state', step=7, wait=True)",
        "print('saved', flush=True)",
        "time.sleep(60)",
    )
    made = anygpu.json("run", "-d", "-n", "stopped", "t.py")
    with anygpu.start("logs", "-f", "stopped", stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        assert [following.stdout.readline() for _ in range(2)] == [b"from 0\n", b"saved\n"]
        anygpu("cancel", "--wait", "stopped")
        following.wait(30)
    assert anygpu.json("show", "stopped")["status"] == "cancelled"
    resumed = anygpu("resume", made["id"])
    assert resumed.stdout.endswith(b"from 7\n")
    assert b"no checkpoint" not in resumed.stderr
    assert anygpu.json("show", "last")["resumed_from"] == made["id"]


def test_outputs_are_fetched_verified_and_never_overwritten_unasked(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import os",
        "os.makedirs('runs/a')",
        "open('runs/a/m.bin', 'wb').write(bytes(range(256)) * 4000)",
    )
    anygpu("run", "-n", "made", "--output", "runs/**", "t.py")
    listed = anygpu("fetch", "made")
    assert b"1000.0 KiB  runs/a/m.bin" in listed.stdout
    assert b"anygpu fetch made --all" in listed.stderr
    assert not (anygpu.directory / "made").exists()
    anygpu("fetch", "made", "--all")
    path = anygpu.directory / "made" / "runs" / "a" / "m.bin"
    assert path.read_bytes() == bytes(range(256)) * 4000
    assert anygpu.json("fetch", "made", "--all")["files"][0]["downloaded"] is False
    path.write_bytes(b"mine")
    assert b"--force" in anygpu("fetch", "made", "runs/a/m.bin", code=73).stderr
    assert path.read_bytes() == b"mine"
    anygpu("fetch", "made", "--force")
    assert path.read_bytes() == bytes(range(256)) * 4000
    anygpu("fetch", "made", "other.bin", code=66)


def test_a_checkpoint_is_fetched_under_its_step(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import anygpu",
        "open('w.bin', 'wb').write(b'weights')",
        "anygpu.checkpoint('w.bin', step=9, wait=True)",
    )
    anygpu("run", "-n", "weighed", "t.py")
    anygpu("fetch", "--checkpoint", "weighed", "--to", "out")
    found = [path for path in (anygpu.directory / "out" / "checkpoints" / "9").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in found if path.name == "w.bin"] == [b"weights"]


def test_a_secret_reaches_the_job_and_is_masked_in_its_output(anygpu: Shell) -> None:
    anygpu("secret", "set", "TEST_TOKEN", stdin=b"hunter2hunter2\n")
    assert "TEST_TOKEN" in [each["name"] for each in anygpu.json("secret", "ls")["secrets"]]
    assert b"TEST_TOKEN" in anygpu("secret", "ls").stdout.split()
    anygpu.write("t.py", "import os", "v = os.environ['TEST_TOKEN']", "print(len(v), v, flush=True)")
    done = anygpu("run", "--secret", "TEST_TOKEN", "t.py")
    assert done.stdout.startswith(b"14 ")
    assert b"hunter2" not in done.stdout + done.stderr
    anygpu("secret", "rm", "TEST_TOKEN")
    anygpu("secret", "rm", "TEST_TOKEN", code=66)


def test_a_job_that_finds_no_free_slot_waits_and_says_for_what(anygpu: Shell) -> None:
    anygpu.write("long.py", "import time; time.sleep(600)")
    busy = anygpu.json("run", "-d", "--cpus", "8", "long.py")
    made = anygpu.json("run", "-d", "--cpus", "8", "--no-workdir", "--", "true")
    until = time.monotonic() + 20
    while not (
        reason := {each["id"]: each["reason"] for each in anygpu.json("queue")["jobs"]}.get(made["id"])
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert "0 of 8 CPU slots of the server's machine are free" in reason
    assert anygpu.json("show", made["id"])["status"] == "queued"
    assert reason.encode()[:20] in anygpu("queue").stdout
    anygpu("cancel", "--wait", made["id"], busy["id"])
    assert anygpu.json("show", made["id"])["status"] == "cancelled"


def test_watch_prints_lines_where_there_is_no_terminal(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import time",
        "for n in range(1, 6): print(f'Epoch {n}/5 loss={1/n:.3f}', flush=True); time.sleep(0.1)",
    )
    anygpu("run", "-d", "-n", "watched", "t.py")
    said = anygpu("watch", "watched").stdout.decode()
    assert said.splitlines()[-1].startswith("completed")
    assert "100%" in said
    once = anygpu("watch", "--once", "watched").stdout.decode()
    assert "loss  0.2" in once
    assert "┤" in once
    assert anygpu.json("watch", "--once", "watched")["curves"]["loss"][-1] == [5, 0.2]


def test_a_login_elsewhere_is_used_until_forgotten(anygpu: Shell, tmp_path: Path) -> None:
    state = Path(anygpu.environ["ANYGPU_STATE"])
    url = json.loads((state / "server.json").read_text())["url"]
    token = anygpu.json("token", "create", "elsewhere")["token"]
    anygpu.environ = {
        **anygpu.environ,
        "ANYGPU_CONFIG": str(tmp_path / "c" / "config.toml"),
        "ANYGPU_STATE": str(tmp_path / "none"),
    }
    anygpu("ls", code=69)
    anygpu("login", url, "--name", "lab", stdin=b"wrong\n", code=77)
    anygpu("login", url, "--name", "lab", stdin=token.encode() + b"\n")
    assert anygpu.json("context", "ls")["current"] == "lab"
    assert "jobs" in anygpu.json("ls")
    anygpu("context", "rm", "lab")
    anygpu("ls", code=69)


def test_a_revoked_token_opens_nothing_more(anygpu: Shell) -> None:
    made = anygpu.json("token", "create", "short", "--expires", "1h")
    url = json.loads((Path(anygpu.environ["ANYGPU_STATE"]) / "server.json").read_text())["url"]
    by_token = {**anygpu.environ, "ANYGPU_URL": url, "ANYGPU_TOKEN": made["token"]}
    anygpu.environ, own = by_token, anygpu.environ
    anygpu("ls")
    anygpu.environ = own
    anygpu("token", "revoke", made["id"])
    anygpu.environ = by_token
    assert b"anygpu login" in anygpu("ls", code=77).stderr


def test_a_server_that_does_not_answer_is_told_in_one_line(anygpu: Shell) -> None:
    anygpu.environ = {**anygpu.environ, "ANYGPU_URL": "http://127.0.0.1:9", "ANYGPU_TOKEN": "x"}
    said = anygpu("ls", code=69).stderr.decode()
    assert said.count("\n") == 1
    assert "http://127.0.0.1:9" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_in_the_foreground_ends_with_its_command(alone: Shell, number: signal.Signals) -> None:
    with alone.start("up", stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"Server running at http://127.0.0.1:")
        assert b"/login/" in running.stdout.readline()
        alone("up", code=73)
        running.send_signal(number)
        assert running.wait(20) == 0
    alone("ls", code=69)


def test_open_leads_to_the_web_app_or_to_the_page_of_a_job(anygpu: Shell) -> None:
    job = anygpu.json("run", "-d", "--no-workdir", "-n", "opened", "--", "true")["id"]
    anygpu.environ = {**anygpu.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}
    link = anygpu("open").stdout.decode().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/login/\S+", link)
    page = anygpu("open", "opened").stdout.decode().strip()
    assert page.endswith(f"?next=/jobs/{job}")
    assert b"no-such-job" in anygpu("open", "no-such-job", code=66).stderr


def test_help_loads_nothing_that_is_slow_to_load(anygpu: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", anygpu.command, "--help"], capture_output=True, check=True
    )
    loaded = {line.rsplit(b"|", 1)[1].strip().decode() for line in done.stderr.splitlines() if b"|" in line}
    assert "click" in loaded
    heavy = {"pydantic", "fastapi", "sqlalchemy", "asyncio", "rich", "http.client", "ssl", "yaml", "uvicorn"}
    assert loaded & heavy == set()


def test_doctor_finds_the_server_and_nothing_wrong(anygpu: Shell) -> None:
    states = {each["what"]: each["state"] for each in anygpu.json("doctor")["findings"]}
    assert states["server"] == "ok"
    assert "fail" not in states.values()


def test_retention_can_be_tried_without_removing_anything(anygpu: Shell) -> None:
    assert anygpu.json("gc", "--dry-run")["dry_run"] is True


def test_a_job_is_resumed_from_the_step_that_was_chosen(anygpu: Shell) -> None:
    anygpu.write(
        "t.py",
        "import pathlib, sys, anygpu",
        "path = anygpu.resume_path()",
        "print('from', pathlib.Path(path).read_text() if path else 0, flush=True)",
        "if path: sys.exit()",
        "for step in (4, 5, 6):",
        "    pathlib.Path('state').write_text(str(step))",
        "    anygpu.checkpoint('state', step=step, wait=True)",
        "sys.exit(3)",
    )
    anygpu("run", "-n", "chosen", "t.py", code=3)
    ended = anygpu.json("show", "chosen")["id"]
    assert b"from 5" in anygpu("resume", ended, "--from-step", "5").stdout
    said = anygpu("resume", ended, "--from-step", "9", code=66).stderr
    assert b"steps of its checkpoints: 4, 5, 6" in said
