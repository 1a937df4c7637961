"""The agent's small rules: leases, endings, steps, patterns, snapshots, environment."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from anygpu.agent import environment, notices, snapshot, stopping
from anygpu.agent.lease import Lease
from anygpu.agent.notices import Notice
from anygpu.agent.patterns import files_matching, matches_a_folder
from anygpu.agent.points import Points
from anygpu.agent.steps import Steps
from anygpu.agent.telemetry import parse_gpus
from anygpu.agent.wire import Refused


@pytest.mark.parametrize(
    ("stop", "outcome", "steps"),
    [
        (stopping.by_order({"kind": "cancel"}, 0, 10), "cancelled", {0: ["flag", "term"], 10: ["kill"]}),
        (
            stopping.by_order({"kind": "stop", "reason": "budget"}, 0, 10),
            "stopped",
            {0: ["flag"], 10: ["term"], 20: ["kill"]},
        ),
        (
            stopping.by_order({"kind": "stop", "reason": "timeout"}, 0, 10),
            "timeout",
            {0: ["flag"], 10: ["term"]},
        ),
        (stopping.by_timeout(0, 10), "timeout", {0: ["flag"], 10: ["term"], 20: ["kill"], 50: ["abandon"]}),
        (stopping.by_lost_lease(0, 10), "lease_lost", {0: ["flag", "term"], 10: ["kill"], 40: ["abandon"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_ending_has_its_steps(stop: stopping.Stop, outcome: str, steps: dict[int, list[str]]) -> None:
    assert stop.outcome == outcome
    assert {at: stop.due(at) for at in steps} == steps


@pytest.mark.parametrize(
    ("seconds", "term_at", "kill_at", "published_by", "in_haste"),
    [(120, 42, 60, 115, False), (30, 10.5, 15, 27, False), (10, 3.5, 5, 9, True), (0, 0, 0, 0, True)],
)
def test_a_notice_leaves_time_to_save_and_time_to_publish(
    seconds: float, term_at: float, kill_at: float, published_by: float, in_haste: bool
) -> None:
    notice = Notice(seconds, "said")
    stop = stopping.by_notice(notice.at - seconds, notice)
    steps = {action: at - (notice.at - seconds) for at, action in stop.steps}
    assert stop.until is not None
    assert steps["flag"] == 0
    assert (steps["term"], steps["kill"]) == pytest.approx((term_at, kill_at))
    assert stop.until - (notice.at - seconds) == pytest.approx(published_by)
    assert (stop.in_haste, stop.outcome) == (in_haste, "stopped")


def test_a_notice_is_measured_by_the_clock_of_the_provider() -> None:
    said = '{"action": "terminate", "time": "2026-09-18T08:22:00Z"}'
    notice = notices.aws_notice(said, now_s=1789719600.0)
    assert notice.at - time.monotonic() == pytest.approx(120, abs=1)
    assert said in notice.said


def test_an_event_for_another_machine_of_the_scale_set_is_not_ours() -> None:
    said = (
        '{"Events": [{"EventType": "Preempt", "Resources": ["other"], "NotBefore": ""},'
        ' {"EventType": "Reboot", "Resources": ["ours"], "NotBefore": ""}]}'
    )
    assert notices.azure_notice(said, "ours", 0.0) is None
    assert notices.azure_notice(said, "other", 0.0) is not None


def test_a_lease_counts_from_the_sending_of_what_renewed_it() -> None:
    lease = Lease(sent_at=100, lease_s=4)
    assert not lease.is_over(103.9)
    lease.renew(sent_at=102, lease_s=4)
    assert not lease.is_over(105.9)
    assert lease.is_over(106)


def test_an_older_answer_that_comes_late_does_not_shorten_a_lease() -> None:
    lease = Lease(100, 4)
    lease.renew(103, 4)
    lease.renew(101, 4)
    assert not lease.is_over(104.5)


def test_a_server_that_grants_nothing_ends_the_lease() -> None:
    lease = Lease(100, 60)
    lease.renew(101, 0)
    assert lease.is_over(101)


def test_a_machine_that_slept_may_ask_the_server_before_it_stops_a_healthy_job() -> None:
    lease = Lease(100, 4)
    assert not lease.is_over(101)
    assert not lease.is_over(8000), "just woken"
    lease.renew(8001, 4)
    assert not lease.is_over(8003)


def test_a_file_belongs_to_the_step_at_which_it_was_written() -> None:
    steps = Steps(first=10)
    for step in range(11, 21):
        steps.note(step, at=1000.0 + step)
    assert steps.at(1015.5) == 15
    assert steps.at(5.0) == 10
    assert steps.latest == 20


def made(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["*.pt"], {"a.pt"}),
        (["**/*.pt"], {"a.pt", "runs/b.pt", "runs/x/c.pt"}),
        (["runs"], {"runs/b.pt", "runs/x/c.pt", "runs/x/log"}),
        (["runs/**"], {"runs/b.pt", "runs/x/c.pt", "runs/x/log"}),
        (["runs/?/*"], {"runs/x/c.pt", "runs/x/log"}),
        (["**"], {"a.pt", "runs/b.pt", "runs/x/c.pt", "runs/x/log"}),
        (["../*", "/etc/*", "nothing"], set()),
        ([".hidden"], {".hidden"}),
        ([".*"], {".hidden"}),
        ([".anygpu/checkpoints"], {".anygpu/checkpoints/s.pt"}),
    ],
)
def test_patterns_find_files_below_the_directory_and_nothing_else(
    tmp_path: Path, patterns: list[str], found: set[str]
) -> None:
    made(tmp_path, "a.pt", "runs/b.pt", "runs/x/c.pt", "runs/x/log", ".hidden", ".anygpu/checkpoints/s.pt")
    (tmp_path / "leak.pt").symlink_to("/etc/hostname")
    (tmp_path / "runs" / "etc").symlink_to("/etc")
    assert set(files_matching(str(tmp_path), patterns)) == found


def test_a_checkpoint_in_a_numbered_directory_is_that_directory() -> None:
    assert matches_a_folder("out/checkpoint-400/model.bin", ["out/checkpoint-*"]) == "out/checkpoint-400"
    assert matches_a_folder("out/last.pt", ["out/*.pt"]) is None


def test_a_snapshot_keeps_what_is_overwritten_and_lists_the_newest_first(tmp_path: Path) -> None:
    made(tmp_path / "work", "old.pt", "new.pt")
    os.utime(tmp_path / "work" / "old.pt", (1, 1))
    taken = snapshot.take(str(tmp_path / "work"), ["old.pt", "new.pt"], str(tmp_path / "s"), set())
    (tmp_path / "work" / "new.pt").write_text("torn")
    assert [(name, Path(path).read_text()) for name, path in snapshot.files_of(taken)] == [
        ("new.pt", "new.pt"),
        ("old.pt", "old.pt"),
    ]


def test_lines_that_are_not_ours_are_counted_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_bytes(
        b'{"m": {"a": 1}, "t": 5, "s": 3}\ngarbage\n[]\n{"m": {"a": "x"}, "t": 1}\n{"m": {"b": NaN}, "t": 6}\n{"m"'
    )
    points = Points(str(path), Steps())
    found: list[Any] = []
    points.on_points = found.extend
    points.read()
    assert [point[:3] for point in found] == [("a", 3, 5.0), ("b", 1, 6.0)]
    assert points.malformed == 3
    with path.open("ab") as file:
        file.write(b': {"a": 2}, "t": 7}\n')
    points.read()
    assert found[-1] == ("a", 4, 7.0, 2.0)


def test_what_a_script_leaves_out_of_its_progress_keeps_its_value(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_text('{"p": {"epoch": 1, "epochs": 9, "step": 10}}\n{"p": {"step": 11, "steps": 90}}\n')
    points = Points(str(path), Steps())
    told: list[Any] = []
    points.on_progress = told.append
    points.read()
    assert told[-1] == {"epoch": 1, "epochs": 9, "step": 11, "steps": 90}


def test_gpus_are_read_from_nvidia_smi_and_unknown_values_stay_unknown() -> None:
    said = "0, GPU-1a, NVIDIA A100, 87, 1024, 40960, 61, 251.3\n1, GPU-2b, Tesla T4, [N/A], 0, 15360, 40, [N/A]\n"
    first, second = parse_gpus(said)
    assert (first["use"], first["memory_used"], first["power_w"]) == (0.87, 2**30, 251.3)
    assert (second["uuid"], second["use"], second["power_w"]) == ("GPU-2b", None, None)


def test_only_what_a_job_needs_passes_into_its_environment() -> None:
    around = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_SECRET_ACCESS_KEY": "x",
        "ANYGPU_TOKEN": "y",
    }
    assert set(environment.scrubbed(around)) == {"PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES"}


@pytest.mark.parametrize(
    ("status", "code", "passes", "nobody"),
    [
        (503, "", True, False),
        (429, "", True, False),
        (401, "", False, True),
        (404, "", False, True),
        (409, "superseded", False, True),
        (409, "gap", False, False),
        (422, "", False, False),
    ],
)
def test_a_refusal_knows_whether_asking_again_helps(
    status: int, code: str, passes: bool, nobody: bool
) -> None:
    refusal = Refused(status, {"code": code})
    assert (refusal.may_pass, refusal.we_are_nobody) == (passes, nobody)
