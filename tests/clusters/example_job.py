"""The example job with checkpoints that the tests of each engine interrupt, and what they read about it afterwards."""

import json
import shutil
import urllib.request
from pathlib import Path

from tests.acceptance.machines.cloud import Server

EXAMPLE = Path(__file__).parents[2] / "examples" / "resumable"
STEPS = 60
STEP_S = 0.15  # slower than in the example, so that there is time to interrupt it
JOB = """
name: resumable
script: train.py
args: [--steps, "{steps}"]
checkpoint:
  paths: [state.json]
  every: 1s
  resume_args: [--resume, "{{path}}"]
outputs: [state.json]
"""


def make_project(folder: Path) -> Path:
    """Copy the example to `folder`, with slower steps, and return its directory."""
    project = folder / "project"
    shutil.copytree(EXAMPLE, project)
    return write_job(project)


def write_job(project: Path, steps: int = STEPS, step_s: float = STEP_S) -> Path:
    """Write the script and the job file, and return their directory."""
    code = (EXAMPLE / "train.py").read_text()
    (project / "train.py").write_text(code.replace("time.sleep(0.05)", f"time.sleep({step_s})"))
    (project / "job.yaml").write_text(JOB.format(steps=steps))
    return project


def submit(
    server: Server,
    project: Path,
    backend: str,
    *options: str,
    steps: int = STEPS,
    step_s: float = STEP_S,
) -> str:
    """Submit the job for one backend, as a person does, and return its id."""
    write_job(project, steps, step_s)
    shown = server.anygpu("run", "--detach", "--json", "--on", backend, *options, "job.yaml", cwd=project)
    return str(json.loads(shown[shown.index("{") :])["id"])


def model_bytes(server: Server, job_id: str) -> bytes:
    """Return the bytes of the trained model."""
    (artifact,) = server.ask("GET", f"training/{job_id}/artifacts")["artifacts"]
    token = (server.state / "token").read_text().strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{artifact['download']}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return bytes(answer.read())


def recovery_codes(server: Server, job_id: str) -> list[str]:
    """Return why attempts ended before the last one."""
    return [
        event["data"]["failure"]["code"]
        for event in server.events(job_id)
        if event["type"] == "RecoveryStarted"
    ]
