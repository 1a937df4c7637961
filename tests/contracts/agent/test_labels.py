"""The label of a checkpoint agrees with its content, and the agent reports where an attempt began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import content, saved
from tests.contracts.agent.test_restore import resume

Play = Callable[..., Agent]

SAVING = """
import os, sys, time
def save(epoch):
    path = {name}.format(epoch)
    with open(path + ".tmp", "w") as file:
        file.write(str(epoch))
    os.replace(path + ".tmp", path)
os.mkdir("ckpt")
for epoch in range(1, 4):
    time.sleep(2)
    {before}
    print(f"epoch {{epoch}}/3 loss 0.5", flush=True)
    {after}
time.sleep(2)
"""
ORDERS = {"just before": ("save(epoch)", "pass"), "just after": ("pass", "save(epoch)")}


@pytest.mark.extended
@pytest.mark.parametrize("name", ["ckpt/last.pt", "ckpt/epoch_{:04d}.pt"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_file_saved_beside_the_line_of_its_epoch_is_labelled_with_that_epoch(
    play: Play, name: str, order: str
) -> None:
    before, after = ORDERS[order]
    code = SAVING.format(name=repr(name), before=before, after=after)
    agent = play({"code": code, "checkpoint": {"paths": ["ckpt/*.pt"], "every_s": 0.4}})
    assert agent.run() == 0
    labels = [(offer["step"], offer["unit"], offer["epoch"]) for offer in saved(agent.server)]
    epochs = [int(content(agent.server, offer["files"][0])) for offer in saved(agent.server)]
    assert labels == [(epoch, "epoch", epoch) for epoch in epochs]
    assert epochs[-1] == 3


def first_reported(agent: Agent) -> dict[str, Any]:
    progress = agent.server.of_kind("progress")
    return (
        {name: value for name, value in progress[-1].items() if name.startswith("first_")} if progress else {}
    )


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("import anygpu\nfor step in (401, 402): anygpu.log(loss=1, step=step)", {"first_step": 401}),
        ("import anygpu\nanygpu.progress(epoch=4, epochs=9)", {"first_epoch": 4}),
        ("print('step 401 loss 0.5')\nprint('step 402 loss 0.5')", {"first_step": 401}),
        ("print('epoch 5/9 loss 0.5')\nprint('epoch 6/9 loss 0.5')", {"first_epoch": 5}),
        (
            "import anygpu\nopen('a.pt', 'w').close()\nanygpu.checkpoint('a.pt', step=401)",
            {"first_step": 401},
        ),
        ("import anygpu\nanygpu.log(loss=1)", {}),
        ("print('hello')", {}),
    ],
)
def test_the_first_steps_of_a_resumed_script_are_reported(
    play: Play, code: str, first: dict[str, int]
) -> None:
    agent = play({"code": code})
    agent.server.work["resume"] = resume(agent.server, {"ckpt/last.pt": b"weights"}, 400)
    assert agent.run() == 0
    assert b"The checkpoint of step 400 was restored" in agent.server.log
    assert b"resuming" not in agent.server.log
    assert first_reported(agent) == first


def test_a_checkpoint_that_cannot_be_restored_is_reported_as_a_start_from_the_beginning(play: Play) -> None:
    agent = play({"code": "print('hello')"})
    torn = resume(agent.server, {"ckpt/last.pt": b"weights"}, 400)
    torn["files"][0]["sha256"] = "0" * 64
    agent.server.work["resume"] = torn
    assert agent.run() == 0
    assert b"The job starts from the beginning" in agent.server.log
    assert first_reported(agent) == {"first_step": 0, "first_epoch": 0}


def test_checkpoints_of_a_script_that_starts_again_have_its_own_steps(play: Play) -> None:
    code = """
import anygpu, os
for step in (1, 2):
    anygpu.log(loss=1, step=step)
with open("last.pt", "w") as file:
    file.write("2")
"""
    agent = play({"code": code, "checkpoint": {"paths": ["last.pt"], "every_s": 60}})
    agent.server.work["resume"] = resume(agent.server, {"last.pt": b"400"}, 400)
    assert agent.run() == 0
    assert [(offer["step"], offer["unit"]) for offer in saved(agent.server)] == [(2, "step")]
