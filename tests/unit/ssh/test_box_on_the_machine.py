"""What the agent does for a server on a machine, asked without SSH."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anygpu.agent import box, box_check, box_slots, box_start, box_tidy


def test_slots_are_all_or_nothing_and_come_back_when_they_are_let_go(tmp_path: Path) -> None:
    slots = box_slots.cpu_slots(str(tmp_path), 2)
    held = box_slots.hold(slots, 2)
    assert held is not None
    assert (held.labels, box_slots.free(slots), box_slots.hold(slots, 1)) == (["0", "1"], [], None)
    held.close()
    assert box_slots.hold(slots, 3) is None
    assert box_slots.free(slots) == ["0", "1"]


def test_gpu_locks_can_be_taken_by_everybody_on_the_machine(tmp_path: Path) -> None:
    slots = box_slots.gpu_slots(["GPU-a/../b"], str(tmp_path / "gpus"))
    held = box_slots.hold(slots, 1)
    assert held is not None
    held.close()
    assert stat.S_IMODE((tmp_path / "gpus").stat().st_mode) == 0o777
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "gpus").iterdir()] == [0o666]


def test_a_lock_that_somebody_turned_into_a_link_is_as_good_as_taken(tmp_path: Path) -> None:
    slots = box_slots.gpu_slots(["GPU-1"], str(tmp_path))
    Path(slots[0].path).symlink_to(tmp_path / "elsewhere")
    assert box_slots.free(slots) == []
    assert not (tmp_path / "elsewhere").exists()


def test_directories_of_ended_attempts_go_after_a_day_and_untold_ones_after_a_month(tmp_path: Path) -> None:
    for name, days, untold in (
        ("new", 0.5, False),
        ("old", 2, False),
        ("untold", 2, True),
        ("alive", 40, False),
    ):
        directory = tmp_path / f"anygpu-{name}"
        directory.mkdir()
        if untold:
            (directory / "work.json").write_text("{}")
            os.utime(directory / "work.json", (0, time.time() - days * 86_400))
        os.utime(directory, (0, time.time() - days * 86_400))
    assert box_tidy.tidy(str(tmp_path), ["anygpu-alive"]) == ["anygpu-old"]
    assert box_tidy.tidy(str(tmp_path / "nowhere"), []) == []


def test_the_names_of_attempts_cannot_lead_out_of_their_directory(tmp_path: Path) -> None:
    for name in ("../x", ".hidden", ""):
        with pytest.raises(OSError, match="not an attempt's name"):
            box.serve(str(tmp_path), "agent.pyz", {"do": "kill", "target": name}, print)


def test_what_was_ended_does_not_start_again(tmp_path: Path) -> None:
    directory = tmp_path / "anygpu-1"
    directory.mkdir()
    assert box.kill(str(directory)) == {"known": True, "gone": True}
    order = box_start.Order(str(directory), "agent.pyz", {"ticket": {"ticket": "t"}})
    assert box_start.start(order) == ({"agent": "ended"}, None)
    assert not (directory / "ticket.json").exists()


def test_an_attempt_nobody_brought_a_ticket_for_is_unknown(tmp_path: Path) -> None:
    order = box_start.Order(
        str(tmp_path / "anygpu-1"), "agent.pyz", {"tunnel": {"url": "http://127.0.0.1:1"}}
    )
    assert box_start.start(order) == ({"agent": "unknown"}, None)


def test_an_agent_that_ran_and_died_is_not_started_again(tmp_path: Path) -> None:
    (tmp_path / "process.json").write_text('{"pid": null}')
    (tmp_path / "work.json").write_text("{}")
    order = box_start.Order(str(tmp_path), "agent.pyz", {"ticket": {"ticket": "t"}})
    assert box_start.start(order) == ({"agent": "dead", "told": False}, None)


def test_a_living_agent_is_left_alone_and_told_its_new_tunnel(tmp_path: Path) -> None:
    lock = box_slots.try_lock(str(tmp_path / "agent.lock"))
    assert lock is not None
    asked = {"ticket": {"ticket": "t"}, "tunnel": {"url": "http://127.0.0.1:2"}}
    assert box_start.start(box_start.Order(str(tmp_path), "agent.pyz", asked)) == ({"agent": "alive"}, None)
    os.close(lock)
    assert json.loads((tmp_path / "tunnel.json").read_text()) == {"url": "http://127.0.0.1:2"}


def test_cards_are_read_from_what_nvidia_smi_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU-1, NVIDIA L4, 23034, 550.54.15'\necho nonsense\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    card = {"uuid": "GPU-1", "kind": "NVIDIA L4", "memory_gib": 22.5, "driver": "550.54.15"}
    assert box_check.gpus() == ([card], "")
    smi.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed: no driver'\nexit 9\n")
    assert box_check.gpus() == ([], "nvidia-smi says: NVIDIA-SMI has failed: no driver")


@pytest.mark.parametrize("words", [["--check"], ["--list"], ["--kill", "anygpu-none-1"]])
def test_a_subcommand_prints_one_line_of_json(words: list[str], tmp_path: Path) -> None:
    agent = Path(box.__file__).with_name("__main__.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", agent, *words],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert set(json.loads(line)) & {"names", "gone"}


def test_a_subcommand_without_its_directory_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert box.main(["--start"]) == 2
    assert "--start needs a directory or a name" in capsys.readouterr().err
