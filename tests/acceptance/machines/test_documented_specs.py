"""Every job spec of the documents runs, here or on a rented machine of the simulated cloud, until its model exists."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.machines.cloud import BRISK, Cloud, Server
from tests.docs.pages import ROOT, blocks

from anygpu.spec import from_toml, from_yaml
from anygpu.trainers.registry import missing_modules, modules_for

PAGES = ("docs/reference/job-spec.md", "docs/how-to/trainers.md", "docs/explanation/spot.md")
TRAIN = """
import argparse, pathlib, sys
import anygpu

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--resume")
epochs = parser.parse_args().epochs
for folder in ("checkpoints", "ckpt", "runs"):
    pathlib.Path(folder).mkdir(exist_ok=True)
for epoch in range(1, epochs + 1):
    print(f"Epoch {epoch}/{epochs} loss={1 / epoch:.3f}", flush=True)
    for folder in ("checkpoints", "ckpt"):
        pathlib.Path(folder, f"{epoch}.pt").write_text(str(epoch))
pathlib.Path("model.pt").write_text("weights")
anygpu.best("model.pt")
"""


def specs() -> Iterator[Any]:
    for page in PAGES:
        for language, load in (("yaml", from_yaml), ("toml", from_toml)):
            for line, text in blocks(ROOT / page, language):
                spec = load(text, page).model_dump(mode="json", exclude_defaults=True)
                yield pytest.param(spec, id=f"{Path(page).stem}:{line}")


class _Flowers(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "7")
        self.end_headers()
        self.wfile.write(b"flowers")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def data_url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Flowers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/flowers.zip"
        server.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with this machine and two accounts, under the names that the documents use."""
    folder = tmp_path_factory.mktemp("documented")
    cloud = Cloud(folder, "--boot", "1s", "--ssh-port", "2334")
    settings = cloud.settings(
        aws={"kind": "ec2", "regions": ["us-east-1"]}, lab={"kind": "lambda", "unattended": True}
    )
    made = Server(folder, settings, **BRISK, ANYGPU_LOCAL__ENABLED="true")
    made.ask("PUT", "secrets/team-hugging-face", {"value": "hunter2"})
    yield made
    made.stop()
    cloud.stop()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("train.py", "experiments/train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TRAIN)
    (tmp_path / "torchrun").write_text("#!/bin/sh\nexec python3 train.py\n")
    (tmp_path / "torchrun").chmod(0o755)
    rows = "".join(f"{size},{size % 7},{('a', 'b')[size % 2]}\n" for size in range(60))
    for table in ("flowers.csv", "penguins.csv"):
        (tmp_path / table).write_text("length,width,species\n" + rows)
    return tmp_path


def is_without_framework(spec: dict[str, Any]) -> bool:
    modules = modules_for(spec.get("trainer", ""), spec.get("config", {}))
    return bool(missing_modules() & set(modules))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("spec", [*specs()])
def test_a_documented_spec_runs_until_its_model_exists(
    spec: dict[str, Any], server: Server, project: Path, data_url: str
) -> None:
    if "url" in spec.get("dataset", {}):
        spec["dataset"]["url"] = data_url
    if "torchrun" in spec.get("command", ()):
        spec["command"][0] = "./torchrun"  # torch is not installed here
    (project / "job.yaml").write_text(json.dumps(spec))  # JSON is YAML
    if is_without_framework(spec):
        (project / "flowers").mkdir()
        told = server.anygpu("run", "job.yaml", "--on", "local", "--no-check", "-d", code=65, cwd=project)
        assert "pip install 'anygpu[" in told
        return
    consent = ["--paid"] if spec.get("resources", {}).get("gpu") else []
    server.anygpu("run", "job.yaml", *consent, "-d", cwd=project)
    job = server.wait(server.job("last")["id"], "completed", "failed", within_s=200)
    assert job["status"] == "completed", (job["failure"], job["recent_logs"])
    files = server.ask("GET", f"training/{job['id']}/artifacts")["artifacts"]
    assert any(file["name"].startswith("best/") for file in files), files
