"""A job that trains in one process or with torchrun and gloo in several, and checks of what it computed.

Imports no torch: the Python of the server runs it too.
"""

from pathlib import Path
from typing import Any

import pytest

STEPS = 40
# Linear regression by gradient descent. Each rank computes the gradient of its part of the data; all ranks add them.
TRAINING = """
import json, os, sys, time
import torch
import torch.distributed as dist
import anygpu

folder, steps, waits = {folder!r}, {steps}, {waits}
world = int(os.environ.get("WORLD_SIZE", 1))
rank = int(os.environ.get("RANK", 0))
if world > 1:
    dist.init_process_group("gloo")
    assert (dist.get_rank(), dist.get_world_size()) == (rank, world)
torch.manual_seed(1)
data, weights = torch.randn(64, 8, dtype=torch.float64), torch.zeros(8, dtype=torch.float64)
target = data @ torch.arange(8, dtype=torch.float64)
step = 0
resumed = anygpu.resume_path()
if resumed:
    saved = torch.load(resumed)
    step, weights = saved["step"], saved["weights"]
with open(os.path.join(folder, f"{{os.environ['ANYGPU_ATTEMPT']}}-{{rank}}.pid"), "w") as file:
    file.write(str(os.getpid()))
mine = slice(rank * 64 // world, (rank + 1) * 64 // world)
while step < steps:
    gradient = data[mine].T @ (data[mine] @ weights - target[mine]) / 64
    if world > 1:
        dist.all_reduce(gradient)
    weights = weights - 0.1 * gradient
    step += 1
    anygpu.log(loss=float(((data @ weights - target) ** 2).mean()), step=step)
    if rank == 0:
        torch.save({{"step": step, "weights": weights}}, "state.pt")
        anygpu.checkpoint("state.pt", step=step, wait=step % 10 == 0)
    while waits and step >= steps // 2 and not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.02)
print(f"rank {{rank}} done at step {{step}}", flush=True)
if rank == 0:
    with open("result.json", "w") as file:
        json.dump({{"weights": weights.tolist(), "world": world, "resumed": bool(resumed)}}, file)
    anygpu.artifact("result.json")
if world > 1:
    dist.destroy_process_group()
"""
ONE_PROCESS: dict[str, Any] = {"resources": {"cpus": 1}}
TWO_PROCESSES: dict[str, Any] = {
    "launcher": "torchrun",
    "processes_per_node": 2,
    "resources": {"cpus": 1},
}
FOUR_PROCESSES: dict[str, Any] = {
    "launcher": "torchrun",
    "processes_per_node": 2,
    "resources": {"nodes": 2, "cpus": 2},
}
KILLED = 128 + 9


def ranks_job(folder: Path, name: str, python: str, *, waits: bool = False, **fields: Any) -> dict[str, Any]:
    """Return the spec of the job. Its processes write their process ids to `folder`/`name`.

    With `waits`, the job stops in the middle until the file `go` is there. `python` has torch.
    """
    place = folder / name
    place.mkdir()
    code = TRAINING.format(folder=str(place), steps=STEPS, waits=waits)
    return {"name": name, "code": code, "python": python, **fields}


def has_trained(job: dict[str, Any]) -> bool:
    """Return whether the job has a checkpoint from which it can resume."""
    return bool((job["checkpoint"] or {}).get("step", 0) >= STEPS // 4)


def check_same_result(alone: dict[str, Any], together: dict[str, Any], world: int) -> None:
    """Check that several processes computed the same as one: their gradients were added in every step."""
    assert (alone["world"], together["world"]) == (1, world)
    assert together["weights"] == pytest.approx(alone["weights"], rel=1e-12)


def check_resumed_after_kill(job: dict[str, Any], result: dict[str, Any], together: dict[str, Any]) -> None:
    """Check that all ranks resumed after one on node 1 was killed, and computed the same bits as without."""
    assert result["resumed"]
    assert result["weights"] == together["weights"]
    first, second = job["attempts"]
    assert (first["exit_code"], second["exit_code"]) == (KILLED, 0)
    assert first["message"] == "node 1: a process of torchrun was killed by signal 9"
    assert job["resume"]["state"] == "verified"
