"""`import anygpu` in a training script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import anygpu


def script(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    place = str(Path(anygpu.__file__).parents[1])
    around = {"PATH": os.environ["PATH"], "PYTHONPATH": place, **env}
    return subprocess.run(
        [sys.executable, "-c", code], env=around, capture_output=True, text=True, check=False
    )


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "points.jsonl").read_text().splitlines()]


def test_outside_a_job_every_function_does_nothing(tmp_path: Path) -> None:
    code = """
import anygpu
anygpu.log(loss=1, step=1); anygpu.log({"a": 1}); anygpu.progress(step=1)
anygpu.checkpoint("nowhere.pt"); anygpu.artifact("nowhere"); anygpu.save("nowhere"); anygpu.best("nowhere.pt")
print(anygpu.resume_path(), anygpu.should_stop())
"""
    done = script(code)
    assert (done.stdout, done.stderr) == ("None False\n", "")


def test_numbers_of_every_kind_are_recorded(tmp_path: Path) -> None:
    code = """
import anygpu, numpy
anygpu.log(loss=numpy.float32(0.5), n=numpy.int64(3), flag=True, step=numpy.int64(7))
anygpu.log({"val/loss": 0.25, "one": numpy.array([2.0])}, step=8)
anygpu.log(free=1)
anygpu.progress(step=5, steps=10, epoch=1, message="half")
"""
    done = script(code, ANYGPU_DIR=str(tmp_path))
    assert done.stderr == ""
    first, second, third, fourth = lines(tmp_path)
    assert (first["m"], first["s"]) == ({"loss": 0.5, "n": 3.0, "flag": 1}, 7)
    assert (second["m"], second["s"]) == ({"val/loss": 0.25, "one": 2.0}, 8)
    assert "s" not in third
    assert fourth == {"p": {"step": 5, "steps": 10, "epoch": 1, "message": "half"}}


def test_progress_is_written_with_the_next_metrics_and_at_exit(tmp_path: Path) -> None:
    code = """
import anygpu
for step in range(1, 51):
    anygpu.progress(step=step, steps=50)
    anygpu.log(loss=1 / step, step=step)
for step in range(51, 60):
    anygpu.progress(step=step)
"""
    script(code, ANYGPU_DIR=str(tmp_path))
    said = lines(tmp_path)
    assert [line["s"] for line in said if "m" in line] == [*range(1, 51)]
    assert len(said) < 60
    assert said[-1]["p"]["step"] == 59


def test_invalid_values_cause_one_warning_and_no_exception(tmp_path: Path) -> None:
    code = "import anygpu\nfor i in range(3):\n anygpu.log(loss='high', good=1)\n anygpu.log(5)\nprint('trained')"
    done = script(code, ANYGPU_DIR=str(tmp_path))
    assert done.stdout == "trained\n"
    assert done.stderr.count("takes a number, not str") == 1
    assert done.stderr.count("takes a dictionary") == 1
    assert lines(tmp_path)[0]["m"] == {"good": 1}


def test_errors_of_anygpu_are_not_raised_into_training(tmp_path: Path) -> None:
    code = "import anygpu\nanygpu.log(loss=1)\nanygpu.checkpoint('missing.pt')\nprint('trained')"
    done = script(code, ANYGPU_DIR=str(tmp_path / "gone"))
    assert done.stdout == "trained\n"
    assert "Training continues" in done.stderr


def test_threads_and_forks_do_not_mix_their_lines(tmp_path: Path) -> None:
    code = """
import anygpu, os, threading
def talk(who):
    for i in range(200): anygpu.log({"x" * 50 + who: i}, step=i)
anygpu.log(first=1)
threads = [threading.Thread(target=talk, args=(f"t{n}",)) for n in range(4)]
children = []
for n in range(3):
    pid = os.fork()
    if pid == 0:
        talk(f"f{n}"); os._exit(0)
    children.append(pid)
for t in threads: t.start()
for t in threads: t.join()
for pid in children: os.waitpid(pid, 0)
"""
    assert script(code, ANYGPU_DIR=str(tmp_path)).returncode == 0
    assert len(lines(tmp_path)) == 1 + 7 * 200


def test_a_checkpoint_is_copied_before_the_call_returns(tmp_path: Path) -> None:
    code = """
import anygpu, pathlib
pathlib.Path("m.pt").write_text("one"); anygpu.checkpoint("m.pt", step=1); pathlib.Path("m.pt").write_text("two")
pathlib.Path("d/e").mkdir(parents=True); pathlib.Path("d/e/f").write_text("f"); anygpu.checkpoint("d", step=2)
"""
    place = tmp_path / "channel"
    place.mkdir()
    os.chdir(tmp_path)
    assert script(code, ANYGPU_DIR=str(place)).stderr == ""
    first, second = (line["c"] for line in lines(place))
    assert (place / first["snapshot"] / "m.pt").read_text() == "one"
    assert (place / second["snapshot"] / "d" / "e" / "f").read_text() == "f"
    assert (first["path"], first["step"]) == (str(tmp_path / "m.pt"), 1)


def test_should_stop_sees_the_flag_and_checks_at_most_ten_times_a_second(tmp_path: Path) -> None:
    code = """
import anygpu, os, pathlib, time
looks = []
exists = os.path.exists
os.path.exists = lambda path: looks.append(path) or exists(path)
for _ in range(10000): anygpu.should_stop()
few = len(looks)
pathlib.Path(os.environ["ANYGPU_DIR"], "stop").write_text("budget")
time.sleep(0.11)
print(few <= 3, anygpu.should_stop())
"""
    assert script(code, ANYGPU_DIR=str(tmp_path)).stdout == "True True\n"


def test_importing_anygpu_loads_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import anygpu; print(sorted(set(sys.modules) - before))"
    assert script(code).stdout == "['__future__', 'anygpu']\n"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="it has log, progress, checkpoint"):
        anygpu.lgo  # noqa: B018


def test_waiting_for_a_checkpoint_ends_when_its_copy_is_removed(tmp_path: Path) -> None:
    (tmp_path / "m.pt").write_text("m")
    code = f"import anygpu; anygpu.checkpoint({str(tmp_path / 'm.pt')!r}, wait=True); print('done')"
    place = str(Path(anygpu.__file__).parents[1])
    env = {"PYTHONPATH": place, "ANYGPU_DIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    copy = tmp_path / "checkpoints" / "1"
    while not (tmp_path / "points.jsonl").exists():
        time.sleep(0.01)
    assert process.poll() is None
    (copy / "m.pt").unlink()
    copy.rmdir()
    assert process.communicate(timeout=10)[0] == "done\n"
