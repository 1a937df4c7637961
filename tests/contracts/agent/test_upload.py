"""Working directories in, checkpoints and results out, resume back in."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import time
from collections.abc import Callable
from typing import Any

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.fake_server import FakeServer

Play = Callable[..., Agent]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(out.getvalue(), mtime=0)


def archive_of(server: FakeServer, files: dict[str, bytes]) -> None:
    data = packed(files)
    server.files["/file/work"] = data
    server.work["archive"] = {"url": "/file/work", "sha256": sha(data), "size": len(data)}


def saved(server: FakeServer) -> list[dict[str, Any]]:
    return [server.checkpoints[number] for number in server.committed if number in server.checkpoints]


def results(server: FakeServer) -> dict[str, bytes]:
    found = [server.artifacts[number] for number in server.committed if number in server.artifacts]
    return {one["name"]: content(server, one["file"]) for one in found}


def content(server: FakeServer, file: dict[str, Any]) -> bytes:
    return b"".join(server.blobs[chunk["sha256"]] for chunk in file["chunks"])


def test_the_archive_becomes_the_working_directory(play: Play) -> None:
    agent = play({"argv": ["python", "train.py"], "subdir": "project"})
    archive_of(agent.server, {"project/train.py": b"import helper", "project/helper.py": b"print('here')"})
    assert agent.run() == 0
    assert bytes(agent.server.log) == b"here\n"
    assert [frame["phase"] for frame in agent.server.of_kind("phase")] == [
        "preparing",
        "training",
        "finishing",
    ]


def test_an_archive_that_is_not_what_was_promised_is_not_run(play: Play) -> None:
    agent = play({"argv": ["python", "train.py"]})
    archive_of(agent.server, {"train.py": b"print('never')"})
    agent.server.files["/file/work"] = packed({"train.py": b"print('evil')"})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert "sha256" in agent.server.end["message"]


def test_an_archive_that_reaches_outside_is_not_unpacked(play: Play) -> None:
    agent = play({"argv": ["python", "train.py"]})
    archive_of(agent.server, {"../../escaped.py": b"x"})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert "outside of the working directory" in agent.server.end["message"]
    assert not (agent.directory.parent / "escaped.py").exists()


def test_setup_runs_first_and_its_failure_is_explained(play: Play) -> None:
    agent = play({"setup": ["echo ready", "exit 3"], "code": "print('never')"})
    assert agent.run() == 0
    assert b"ready\n" in agent.server.log
    assert b"never" not in agent.server.log
    assert agent.server.end is not None
    assert agent.server.end["message"] == "setup command 2 ended with code 3: exit 3"


def test_a_command_that_does_not_exist_is_named(play: Play) -> None:
    agent = play({"argv": ["trian.sh"]})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert "'trian.sh' was not found" in agent.server.end["message"]


def test_a_checkpoint_overwritten_at_once_is_published_as_it_was(play: Play) -> None:
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


def test_damaged_and_dropped_uploads_are_sent_again(play: Play) -> None:
    code = "import anygpu\nopen('m.pt', 'wb').write(b'm' * 100000)\nanygpu.checkpoint('m.pt', step=7)"
    agent = play({"code": code})
    faults = iter(["500", "cut", "drop"])
    agent.server.fault = lambda path, count: next(faults, None) if path.startswith("/blob/") else None
    assert agent.run() == 0
    assert [one["step"] for one in saved(agent.server)] == [7]


def test_files_of_an_unchanged_script_are_watched_and_published(play: Play) -> None:
    code = """
import time, pathlib
pathlib.Path("ckpt").mkdir()
for epoch in (1, 2):
    print(f"Epoch: {epoch}/2 loss=0.5", flush=True)
    pathlib.Path("ckpt/last.pt").write_bytes(b"state %d" % epoch)
    time.sleep(2.0 if epoch == 1 else 0)
"""
    agent = play({"code": code, "checkpoint": {"paths": ["ckpt/*.pt"], "every_s": 0.1}})
    assert agent.run() == 0
    contents = [content(agent.server, one["files"][0]) for one in saved(agent.server)]
    assert contents == [b"state 1", b"state 2"]
    assert saved(agent.server)[0]["files"][0]["path"] == "ckpt/last.pt"


def test_a_checkpoint_in_the_given_directory_needs_no_pattern(play: Play) -> None:
    code = "import os\nopen(os.environ['ANYGPU_CHECKPOINT_DIR'] + '/a.pt', 'w').write('state')"
    agent = play({"code": code})
    assert agent.run() == 0
    [one] = saved(agent.server)
    assert one["files"][0]["path"] == ".anygpu/checkpoints/a.pt"


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


def test_a_resumed_script_finds_its_checkpoint_everywhere_it_may_look(play: Play) -> None:
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
    assert "the checkpoint of step 400 cannot be used" in log
    assert "[]\nNone\nFalse\n" in log


def test_a_directory_saved_comes_back_as_a_directory(play: Play) -> None:
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


def test_outputs_are_published_and_links_out_of_the_directory_are_not(play: Play) -> None:
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


def test_a_dataset_download_goes_on_where_it_broke_off(play: Play) -> None:
    data = bytes(range(256)) * 20000
    agent = play({"code": "import os\nprint(os.path.getsize(os.environ['ANYGPU_DATASET']))"})
    agent.server.files["/file/digits.npz"] = data
    agent.server.work["dataset"] = {"path": None, "url": "/file/digits.npz", "sha256": sha(data)}
    part = agent.directory / "dataset" / "digits.npz.part"
    part.parent.mkdir()
    part.write_bytes(data[:1000])
    assert agent.run() == 0
    assert int(agent.server.log) == len(data)


def test_requirements_are_installed_once_and_found_by_the_job(play: Play, tmp_path: Any) -> None:
    import zipfile

    wheel = tmp_path / "tinything-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tinything.py", "said = 'installed'")
        file.writestr(
            "tinything-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n"
        )
        file.writestr(
            "tinything-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr("tinything-1.0.dist-info/RECORD", "")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for expected_longer in (True, False):
        agent = play(
            {
                "argv": ["python", "-c", "import tinything; print(tinything.said)"],
                "requirements": [str(wheel)],
            }
        )
        began = time.monotonic()
        agent.start(**cache)
        assert agent.finish(120) == 0
        took_s = time.monotonic() - began
        assert agent.server.log.endswith(b"installed\n")
        assert (b"tinything" in agent.server.log) == expected_longer
        assert expected_longer or took_s < 5
