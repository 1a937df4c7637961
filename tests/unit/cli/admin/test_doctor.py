import shutil
from pathlib import Path

import pytest

from anygpu.cli.admin import doctor
from anygpu.cli.admin.checks import CheckResult
from anygpu.cli.admin.doctor import result_line


def test_a_readable_state_directory_is_a_warning_with_the_command_to_fix_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "token").write_text("t")
    (tmp_path / "token").chmod(0o644)
    found = doctor.check_state(tmp_path)
    assert (found.state, found.advice) == ("warn", f"chmod go-rwx {tmp_path / 'token'}")


def test_a_private_or_missing_state_directory_is_ok(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert doctor.check_state(tmp_path).state == "ok"
    assert doctor.check_state(tmp_path / "none").state == "ok"


@pytest.mark.parametrize(("free", "state"), [(1 << 20, "fail"), (5 << 30, "warn"), (500 << 30, "ok")])
def test_a_disk_that_is_almost_full_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 50, 0, free))
    assert doctor.check_disk(tmp_path / "not" / "yet").state == state


def test_a_result_is_one_line_with_advice_below() -> None:
    finding = CheckResult("warn", "disk", "little", "Free some.")
    assert result_line(finding, colour=False) == "warn  disk      little\n      Free some."


def test_gpus_are_listed_with_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA L4, 23034 MiB, 580.65'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert doctor.check_gpus() == ("ok", "gpus", "NVIDIA L4, 23034 MiB, 580.65", "")
    tool.write_text("#!/bin/sh\necho 'NVIDIA L4, 23034 MiB, 550.54'\n")
    old = doctor.check_gpus()
    assert (old.state, old.said) == ("warn", "NVIDIA L4, 23034 MiB, 550.54")
    assert old.advice.startswith("Driver 550.54 supports CUDA 12.4. torch 2.11 and newer need driver 580")
    tool.write_text("#!/bin/sh\necho 'Failed to initialize NVML'; exit 9\n")
    assert doctor.check_gpus().state == "fail"
