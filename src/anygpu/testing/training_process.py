"""Run real trainings in processes and kill them at a step, to test that resumed trainings give the same results."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TrainingProcess:
    """A training that runs in a new process each time.

    `python` must have the trainer's framework installed.
    """

    trainer: str
    dataset: Path | None
    settings: Mapping[str, Any]
    python: str = sys.executable
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    processes: int = 1  # of the training, one for each GPU

    def run(self, output: Path, *, resume: bool = False) -> dict[str, Any]:
        """Run the training to its end. Return the content of result.json and the first reported step."""
        process = self._start(output, resume)
        steps = [step for step, _ in _steps(process)]
        self._check(process, output)
        result: dict[str, Any] = json.loads((output / "result.json").read_text())
        return {**result, "first_step": steps[0] if steps else None}

    def run_until(self, output: Path, step: int, *, resume: bool = False) -> int:
        """Run the training and kill it as soon as it reports `step`. Return the last reported step."""
        process = self._start(output, resume)
        last_step = 0
        for last_step, _ in _steps(process):
            if last_step >= step:
                break
        else:
            self._check(process, output)
            raise AssertionError(
                f"the training ended at step {last_step}, before step {step} at which it was to be killed"
            )
        process.send_signal(signal.SIGKILL)
        process.wait()
        _close(process)  # data loaders may keep the pipe open for some seconds
        return last_step

    def _start(self, output: Path, resume: bool) -> "subprocess.Popen[bytes]":
        command = [self.python, "-m", "anygpu.trainers", self.trainer, json.dumps(dict(self.settings))]
        command += ["--output", str(output), "--json", *(["--resume"] if resume else [])]
        command += ["--dataset", str(self.dataset)] if self.dataset else []
        command += ["--processes", str(self.processes)] if self.processes > 1 else []
        env = {name: value for name, value in os.environ.items() if not name.startswith("ANYGPU_")}
        env.update(self.env)
        output.mkdir(parents=True, exist_ok=True)
        with (output / "stderr.txt").open("ab") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=env, cwd=self.cwd)

    def _check(self, process: "subprocess.Popen[bytes]", output: Path) -> None:
        code = process.wait()
        _close(process)
        if code:
            stderr = (output / "stderr.txt").read_text(errors="replace")[-3000:]
            raise AssertionError(f"the trainer {self.trainer} exited with code {code}: {stderr}")


def _steps(process: "subprocess.Popen[bytes]") -> Iterator[tuple[int, dict[str, Any]]]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(b'{"type": "progress"'):
            data = json.loads(line)["data"]
            yield data["step"], data


def _close(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdout is not None
    process.stdout.close()
