"""Measure what anygpu costs a training of a built-in trainer: CPU of hooks and agent, and pauses to save."""

import json
import time
from pathlib import Path
from typing import Any

from bench.overhead import agent_cpu_s
from bench.peers import ROOT
from bench.server import BenchServer, Figure

PYTHON = ROOT / ".venv-trainers" / "bin" / "python"
CODE = Path(__file__).with_name("measured_training.py")
WITHIN_S = 600
LIMIT = 0.01
ALONE = {
    "OMP_NUM_THREADS": "1",  # or the time of waiting threads would count as the training's
    "YOLO_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "false",
    "HF_HUB_OFFLINE": "1",
}
TRAININGS: dict[str, dict[str, Any]] = {
    "torch-classifier": {"epochs": 8, "batch_size": 16, "image_size": 96, "device": "cpu", "export": []},
    # Long enough that the agent's start-up, about 0.4 s of CPU, is a small part of the training.
    "yolo": {
        "model": "yolo11n",
        "epochs": 30,
        "batch_size": 16,
        "image_size": 64,
        "device": "cpu",
        "export": [],
    },
}
QUICK_TRAININGS = {"torch-classifier": {**TRAININGS["torch-classifier"], "epochs": 1, "image_size": 32}}


def measure(server: BenchServer, *, quick: bool = False) -> list[Figure]:
    if not PYTHON.exists():
        raise RuntimeError("the frameworks are not installed: make test-trainers installs them")
    trainings = QUICK_TRAININGS if quick else TRAININGS
    return [
        figure for name, settings in trainings.items() for figure in _measure_trainer(server, name, settings)
    ]


def _measure_trainer(server: BenchServer, trainer: str, settings: dict[str, Any]) -> list[Figure]:
    job, agent_s = _run(server, trainer, settings)
    report = _report(server, job)
    share = (agent_s + report["hooks_s"]) / report["cpu_s"]
    stalls = report["stalls_s"] / report["wall_s"]
    return [
        Figure(
            what=f"CPU time of `anygpu` calls and the agent, `{trainer}`",
            ours=f"{share:.2%}",
            against=f"training: {report['cpu_s']:.0f} s of CPU time, {report['steps']} steps",
            ratio=f"agent {agent_s:.2f} s, calls {report['hooks_s']:.3f} s",
            target="at most 1 %",
            met=share <= LIMIT,
            how="includes the start of the agent and all uploads",
        ),
        Figure(
            what=f"time in which saving stops the training, `{trainer}`",
            ours=f"{stalls:.2%}",
            against=f"training: {report['wall_s']:.0f} s",
            ratio=f"{report['stalls_s']:.2f} s, of which {report['stalls_cpu_s']:.2f} s CPU time",
            target="at most 1 %",
            met=stalls <= LIMIT,
            how="the trainer chooses itself how often it saves",
        ),
    ]


def _run(server: BenchServer, trainer: str, settings: dict[str, Any]) -> tuple[str, float]:
    env = {**ALONE, "BENCH_TRAINER": trainer, "BENCH_SETTINGS": json.dumps(settings)}
    asked = {"code": CODE.read_text(), "python": str(PYTHON), "env": env}
    job = server.call("POST", "/api/v1/training", asked)["id"]
    agent_s, end = 0.0, time.monotonic() + WITHIN_S
    while time.monotonic() < end:
        agent_s = agent_cpu_s(server, job) or agent_s
        if server.call("GET", f"/api/v1/training/{job}")["ended_at"]:
            break
        time.sleep(0.1)
    else:
        server.call("POST", f"/api/v1/training/{job}/cancel")
        raise RuntimeError(f"{trainer} was not done within {WITHIN_S} s")
    return job, agent_s


def _report(server: BenchServer, job: str) -> dict[str, float]:
    connection = server.connect()
    connection.request("GET", f"/api/v1/training/{job}/logs?offset=-4000", headers=server.headers)
    text = connection.getresponse().read().decode(errors="replace")
    connection.close()
    for line in text.splitlines():
        if line.startswith("MEASURED "):
            found: dict[str, float] = json.loads(line.removeprefix("MEASURED "))
            return found
    raise RuntimeError(f"the training said nothing of its cost; it said: {text[-1500:]}")
