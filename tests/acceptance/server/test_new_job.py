"""What the page "New job" needs: trainers, texts of a spec, plans with positions, files sent by a browser, clones."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.server.real_server import Server

from anygpu.spec import from_mapping, from_yaml

SCRIPT = """\
import subprocess
import sys

import helpers.text

print(helpers.text.GREETING, sys.argv[1:], flush=True)
print(subprocess.run(["./tool.sh"], capture_output=True, text=True, check=True).stdout, flush=True)
"""
FILES: dict[str, bytes] = {
    "train.py": SCRIPT.encode(),
    "helpers/__init__.py": b"",
    "helpers/text.py": b"GREETING = 'hello'\n",
    "tool.sh": b"#!/bin/sh\necho from a tool\n",
    "logo.png": b"\x89PNG\r\n\x1a\n\0\0",
}
LOADER = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(data, 32)
model.cuda()
for epoch in range(90):
    for x in loader:
        loss.backward()
"""


def send_snapshot(server: Server, files: dict[str, bytes]) -> str:
    """Send files as the page does: ask for missing contents, send them in one batch, then the list."""
    described = [
        {
            "path": path,
            "size": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "executable": data.startswith(b"#!"),
        }
        for path, data in sorted(files.items())
    ]
    hashes = [file["sha256"] for file in described if file["size"]]
    missing = server.ask("POST", "/api/v1/snapshots/missing", {"sha256": hashes}).json["missing"]
    contents = {hashlib.sha256(data).hexdigest(): data for data in files.values()}
    batch = b"".join(b"%s %d\n%s" % (each.encode(), len(contents[each]), contents[each]) for each in missing)
    if missing:
        assert server.ask("POST", "/api/v1/snapshots/contents", batch).json == {"stored": len(missing)}
    listed = json.dumps({"files": described}).encode()
    sha256 = hashlib.sha256(listed).hexdigest()
    assert server.ask("PUT", f"/api/v1/uploads/{sha256}", listed).status in (200, 201)
    return sha256


def job_spec(manifest: str) -> dict[str, Any]:
    return {
        "script": "train.py",
        "args": ["--epochs", "3"],
        "name": "from-page",
        "workdir": {"manifest": manifest, "snapshot": True},
    }


def test_a_job_runs_the_files_that_a_browser_sent(server: Server) -> None:
    spec = job_spec(send_snapshot(server, FILES))
    ended = server.wait_ended(server.submit(**spec), timeout_s=60)
    assert ended["status"] == "completed", ended
    log = server.ask("GET", f"/api/v1/training/{ended['id']}/logs").data.decode()
    assert "hello ['--epochs', '3']" in log
    assert "from a tool" in log


def test_the_code_of_a_job_can_be_read_again(server: Server) -> None:
    manifest = send_snapshot(server, FILES)
    job = server.submit(**job_spec(manifest))
    code = server.ask("GET", f"/api/v1/training/{job}/code/texts").json
    assert (code["stored"], code["manifest"], code["more_files"]) == (True, manifest, 0)
    by_path = {file["path"]: file for file in code["files"]}
    assert by_path["train.py"]["text"] == SCRIPT
    assert by_path["tool.sh"]["executable"] is True
    assert by_path["logo.png"]["text"] is None
    assert by_path["logo.png"]["sha256"] == hashlib.sha256(FILES["logo.png"]).hexdigest()


def test_a_job_without_uploaded_files_has_no_stored_code(server: Server) -> None:
    job = server.submit(code="print('hello')")
    code = server.ask("GET", f"/api/v1/training/{job}/code/texts").json
    assert (code["stored"], code["files"], code["manifest"]) == (False, [], None)


def test_another_organisation_does_not_see_the_code(server: Server) -> None:
    job = server.submit(**job_spec(send_snapshot(server, FILES)))
    other = server.new_token(organisation="others", role="member")
    assert server.ask("GET", f"/api/v1/training/{job}/code/texts", token=other).status == 404


def test_trainers_have_settings_with_defaults_and_bounds(server: Server) -> None:
    trainers = {each["name"]: each for each in server.ask("GET", "/api/v1/trainers").json["trainers"]}
    tabular = trainers["tabular"]
    assert tabular["settings"]["required"] == ["target"]
    assert tabular["settings"]["properties"]["epochs"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1_000_000,
        "description": "passes over the training data",
        "default": 100,
    }
    assert tabular["dataset"] == "a CSV or Parquet file"
    assert "AGPL" in trainers["yolo"]["licence_note"]


def test_a_viewer_may_plan_and_render_but_not_submit(server: Server) -> None:
    viewer = server.new_token(role="viewer")
    spec = {"spec": {"code": "print(1)"}}
    assert server.ask("GET", "/api/v1/trainers", token=viewer).status == 200
    assert server.ask("POST", "/api/v1/plan", spec, token=viewer).status == 200
    assert server.ask("POST", "/api/v1/spec/render", spec, token=viewer).status == 200
    assert server.ask("POST", "/api/v1/training", spec["spec"], token=viewer).status == 403


def test_the_texts_submit_the_same_spec(server: Server) -> None:
    spec = {"script": "train.py", "name": "digits", "args": ["--name", "$(id)"], "limits": {"timeout": "90m"}}
    texts = server.ask("POST", "/api/v1/spec/render", {"spec": spec}).json
    assert texts["cli"] == "anygpu run --name digits --timeout 1h30m train.py --name '$(id)'"
    assert from_yaml(texts["yaml"]).args == ("--name", "$(id)")
    assert "from anygpu import Platform" in texts["python"]


def test_an_invalid_spec_is_explained_by_field(server: Server) -> None:
    answer = server.ask("POST", "/api/v1/spec/render", {"spec": {"script": "train.py", "name": "a b"}})
    assert answer.status == 422
    assert [problem["place"] for problem in answer.json["problems"]] == ["name"]


def test_a_plan_says_where_its_facts_and_lints_are(server: Server) -> None:
    body = {"spec": {"script": "train.py"}, "files": {"train.py": LOADER}}
    plan = server.ask("POST", "/api/v1/plan", body).json
    epochs = next(row for row in plan["workload"] if row["what"] == "epochs")
    assert (epochs["file"], epochs["line"]) == ("train.py", 5)
    lint = next(each for each in plan["lints"] if each["code"] == "no-workers")
    assert (lint["line"], lint["column"], lint["end_column"]) == (3, 9, 19)
    assert lint["fix"] == {
        "title": "Add num_workers=4",
        "edits": [
            {
                "file": "train.py",
                "line": 3,
                "old": "loader = DataLoader(data, 32)",
                "new": "loader = DataLoader(data, 32, num_workers=4)",
            }
        ],
    }


def test_a_plan_shows_what_the_budget_excludes(server: Server) -> None:
    spec = {
        "script": "train.py",
        "resources": {"gpu": 1},
        "limits": {"max_cost": "0.01"},
        "placement": {"expected_duration": "3h"},
    }
    body = {"spec": spec, "files": {"train.py": LOADER}}
    plan = server.ask("POST", "/api/v1/plan?outside=true", body).json
    costs = [offer["cost_microusd"]["expected"] for offer in plan["outside"]]
    assert costs
    assert min(costs) > 10_000
    assert server.ask("POST", "/api/v1/plan", body).json["outside"] == []


def test_the_short_list_can_be_limited_to_a_provider(server: Server) -> None:
    body = {"spec": {"script": "train.py", "resources": {"gpu": 1}}, "files": {"train.py": LOADER}}
    plan = server.ask("POST", "/api/v1/plan?limit=30&backend=lambda", body).json
    assert {offer["backend"] for offer in plan["short"]} == {"lambda"}
    compared = {each["backend"]: each for each in plan["compared"]}
    assert compared["lambda"]["configured"] is False
    assert compared["runpod"]["offers"] > 0


def test_the_command_and_the_python_code_run_the_stored_code_in_any_directory(
    server: Server, tmp_path: Path
) -> None:
    """Run the rendered texts as a person would, in an empty directory."""
    spec = {
        **job_spec(send_snapshot(server, FILES)),
        "name": "rendered",
        "tags": ["it's; a $(tag)"],
        "env": {"NOTE": "two\nlines \x1b[31m"},
        "placement": {"strategy": "cheapest", "paid": False},
    }
    texts = server.ask("POST", "/api/v1/spec/render", {"spec": spec}).json
    (tmp_path / "submit.py").write_text(texts["python"])
    (tmp_path / "job.yaml").write_text(texts["yaml"])
    folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "ANYGPU_URL": server.url,
        "ANYGPU_TOKEN": server.token,
    }
    for command in (texts["cli"], f"{shlex.quote(sys.executable)} submit.py", "anygpu run job.yaml"):
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
    jobs = server.ask("GET", "/api/v1/training?name=rendered").json["jobs"]
    assert len(jobs) == 3
    for job in jobs:
        submitted = server.job(job["id"])["spec"]
        submitted.pop("idempotency_key")
        assert from_mapping(submitted) == from_mapping(spec)
