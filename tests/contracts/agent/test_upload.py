"""Checkpoints and results are uploaded."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import content, results, saved

Play = Callable[..., Agent]


def test_a_checkpoint_that_is_overwritten_at_once_is_uploaded_unchanged(play: Play) -> None:
    code = """
import anygpu, pathlib
path = pathlib.Path("last.pt")
for step in (1, 2, 3):
    path.write_bytes(bytes([step]) * 3_000_000)
    anygpu.checkpoint(path, step=step, wait=step < 3)
    path.write_bytes(b"torn")
"""
    agent = play({"code": code})
    assert agent.run() == 0
    found = {one["step"]: content(agent.server, one["files"][0]) for one in saved(agent.server)}
    assert found == {step: bytes([step]) * 3_000_000 for step in (1, 2, 3)}
    assert saved(agent.server)[0]["files"][0]["path"] == "last.pt"


@pytest.mark.parametrize(("variable", "recorded"), [("4", 4), ("auto", 1), ("0", 1), ("9" * 30, 1), ("", 1)])
def test_a_checkpoint_records_the_number_of_processes_that_the_job_states(
    play: Play, variable: str, recorded: int
) -> None:
    code = "import anygpu\nopen('m.pt', 'wb').write(b'm')\nanygpu.checkpoint('m.pt', step=7)"
    agent = play({"code": code, "env": {"WORLD_SIZE": variable}})
    assert agent.run() == 0
    assert [one["world_size"] for one in saved(agent.server)] == [recorded]


def test_damaged_and_dropped_uploads_are_repeated(play: Play) -> None:
    code = "import anygpu\nopen('m.pt', 'wb').write(b'm' * 100000)\nanygpu.checkpoint('m.pt', step=7)"
    agent = play({"code": code})
    faults = iter(["500", "cut", "drop"])
    agent.server.fault = lambda path, count: next(faults, None) if path.startswith("/blob/") else None
    assert agent.run() == 0
    assert [one["step"] for one in saved(agent.server)] == [7]


@pytest.mark.parametrize("problem", [{}, {"code": "not_found"}], ids=["bucket", "server"])
def test_a_store_that_refuses_a_file_does_not_end_the_job(play: Play, problem: dict[str, str]) -> None:
    agent = play({"code": SAVING_TWICE + "print('trained', flush=True)"})
    agent.server._blob = lambda method, path, body: (404, problem)  # type: ignore[method-assign]
    assert agent.run() == 0
    log = agent.server.log.decode()
    assert log.count("[anygpu] the checkpoint of step 1 was refused: 404") == 1
    assert "trained" in log
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("exited", 0)


RESULTS = "[open(f'{number}.bin', 'wb').write(bytes([number]) * 1000) for number in range(6)]"


def test_a_job_whose_results_cannot_be_uploaded_is_not_a_success(play: Play) -> None:
    agent = play({"code": RESULTS, "outputs": ["*.bin"]}, deliver_s=4)
    ended = threading.Event()
    agent.server.fault = lambda path, count: hang(ended) if path.startswith("/blob/") else None
    try:
        assert agent.run() == 0
    finally:
        ended.set()
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("results_missing", 0)
    missing = "there was not enough time to upload 0.bin, 1.bin, 2.bin, 3.bin, 4.bin, 5.bin"
    assert agent.server.end["message"] == missing
    assert f"[anygpu] {missing}\n" in agent.server.log.decode()


@pytest.mark.extended
def test_results_may_take_long_while_their_upload_makes_progress(play: Play) -> None:
    agent = play({"code": RESULTS, "outputs": ["*.bin"]}, deliver_s=10)
    never = threading.Event()
    agent.server.fault = lambda path, count: hang(never, 3.0) if path.startswith("/blob/") else None
    assert agent.run() == 0
    assert len(results(agent.server)) == 6
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "exited"


def hang(until: threading.Event, limit_s: float = 60.0) -> None:
    until.wait(limit_s)


SAVING_TWICE = """
import anygpu
for step in (1, 2):
    open("m.pt", "wb").write(b"m" * 300000 * step)
    anygpu.checkpoint("m.pt", step=step, wait=True)
"""


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(lambda file: os.truncate(file, 1000), "made {file} shorter"), (os.unlink, "{file} cannot be read")],
    ids=["shorter", "removed"],
)
def test_a_file_that_cannot_be_read_does_not_block_the_next_upload(
    play: Play, damage: Callable[[Path], None], reason: str
) -> None:
    agent = play({"code": SAVING_TWICE})
    damage_first_snapshot(agent, damage)
    assert agent.run() == 0
    assert [one["step"] for one in saved(agent.server)] == [2]
    log = agent.server.log.decode()
    assert log.count("[anygpu]") == 1
    assert reason.format(file=first_snapshot(agent)) in log


def damage_first_snapshot(agent: Agent, damage: Callable[[Path], None]) -> None:
    """Call `damage` with the first snapshot, between the computation of its hash and its upload."""

    def act(path: str, count: int) -> None:
        if path == "/agent/v1/checkpoints" and count == 1:
            damage(first_snapshot(agent))

    agent.server.fault = act


def first_snapshot(agent: Agent) -> Path:
    return agent.directory / "channel" / "checkpoints" / "1" / "m.pt"


def test_checkpoint_files_of_an_unchanged_script_are_uploaded(play: Play) -> None:
    code = """
import os, pathlib, time
pathlib.Path("ckpt").mkdir()
for epoch in (1, 2):
    print(f"Epoch: {epoch}/2 loss=0.5", flush=True)
    pathlib.Path("ckpt/last.pt").write_bytes(b"state %d" % epoch)
    while epoch == 1 and not os.path.exists("go"):
        time.sleep(0.02)
"""
    agent = play({"code": code, "checkpoint": {"paths": ["ckpt/*.pt"], "every_s": 0.1}})
    agent.start()
    agent.server.wait_for(lambda: bool(saved(agent.server)))
    (agent.directory / "work" / "go").touch()
    assert agent.finish() == 0
    contents = [content(agent.server, one["files"][0]) for one in saved(agent.server)]
    assert contents == [b"state 1", b"state 2"]
    assert saved(agent.server)[0]["files"][0]["path"] == "ckpt/last.pt"


def test_a_checkpoint_in_the_given_directory_needs_no_pattern(play: Play) -> None:
    code = "import os\nopen(os.environ['ANYGPU_CHECKPOINT_DIR'] + '/a.pt', 'w').write('state')"
    agent = play({"code": code})
    assert agent.run() == 0
    [one] = saved(agent.server)
    assert one["files"][0]["path"] == ".anygpu/checkpoints/a.pt"


def test_outputs_are_uploaded_but_links_out_of_the_directory_are_not(play: Play) -> None:
    code = """
import os, pathlib, anygpu
pathlib.Path("runs/a").mkdir(parents=True)
pathlib.Path("runs/a/curve.csv").write_text("1,2")
pathlib.Path("model.pt").write_text("weights")
os.symlink("/etc/hostname", "runs/a/secret")
pathlib.Path(os.environ["ANYGPU_OUTPUT_DIR"], "report.txt").write_text("good")
pathlib.Path("best.pt").write_text("best so far")
anygpu.artifact("best.pt", name="models/best.pt")
pathlib.Path("best.pt").write_text("overwritten")
"""
    agent = play({"code": code, "outputs": ["runs/**", "model.pt", "/etc/host*", "../*"]})
    assert agent.run() == 0
    assert results(agent.server) == {
        "runs/a/curve.csv": b"1,2",
        "model.pt": b"weights",
        "report.txt": b"good",
        "models/best.pt": b"best so far",
    }
