"""A job resumes from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.fake_server import FakeServer
from tests.contracts.agent.job_files import content, saved, sha

Play = Callable[..., Agent]


def resume(server: FakeServer, files: dict[str, bytes], step: int) -> dict[str, Any]:
    for data in files.values():
        server.blobs[sha(data)] = data
    return {
        "step": step,
        "files": [
            {
                "path": path,
                "size": len(data),
                "sha256": sha(data),
                "chunks": [{"url": f"/blob/{sha(data)}", "size": len(data), "sha256": sha(data)}],
            }
            for path, data in files.items()
        ],
    }


RESUMING = """
import anygpu, sys, pathlib
print(sys.argv[1:])
print(anygpu.resume_path() and pathlib.Path(anygpu.resume_path()).read_text())
print(pathlib.Path("ckpt/last.pt").exists())
anygpu.log(loss=1)
"""


def test_a_resumed_script_finds_its_checkpoint(play: Play) -> None:
    rule = {"paths": ["ckpt/*.pt"], "every_s": 60, "resume_args": ["--resume", "{path}", "--at={step}"]}
    agent = play({"argv": ["python", "-c", RESUMING], "checkpoint": rule})
    agent.server.work["resume"] = resume(agent.server, {"ckpt/last.pt": b"weights"}, 400)
    assert agent.run() == 0
    path = agent.directory / "channel" / "resume" / "ckpt" / "last.pt"
    lines = bytes(agent.server.log).decode().splitlines()
    assert lines[1:] == [str(["--resume", str(path), "--at=400"]), "weights", "True"]
    assert agent.server.points()[0][:2] == ["loss", 401]
    assert saved(agent.server) == [], "what was restored is not news"


def test_a_damaged_checkpoint_starts_from_the_beginning_and_says_so(play: Play) -> None:
    agent = play({"argv": ["python", "-c", RESUMING], "checkpoint": {"resume_args": ["--resume"]}})
    agent.server.work["resume"] = resume(agent.server, {"ckpt/last.pt": b"weights"}, 400)
    agent.server.blobs[sha(b"weights")] = b"garbage"
    assert agent.run() == 0
    log = bytes(agent.server.log).decode()
    assert "The checkpoint of step 400 cannot be used" in log
    assert "[]\nNone\nFalse\n" in log


def test_a_saved_directory_is_restored_as_a_directory(play: Play) -> None:
    saving = "import anygpu, os\nos.makedirs('out/e1')\nopen('out/e1/m', 'w').write('w')\nanygpu.checkpoint('out/e1')"
    first = play({"code": saving})
    assert first.run() == 0
    [one] = saved(first.server)
    files = {file["path"]: content(first.server, file) for file in one["files"]}
    second = play(
        {"code": "import anygpu, os\nprint(os.listdir(anygpu.resume_path()))\nprint(os.listdir('out/e1'))"}
    )
    second.server.work["resume"] = resume(second.server, files, 1)
    assert second.run() == 0
    listed = bytes(second.server.log).decode().splitlines()[1:]
    assert listed == ["['m', '.anygpu-checkpoint']", "['m']"] or listed == [
        "['.anygpu-checkpoint', 'm']",
        "['m']",
    ]
