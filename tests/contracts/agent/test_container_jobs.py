"""Jobs in container images. A small program stands in for docker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import alive, until

Play = Callable[..., Agent]

# Runs the command of `run` as a process of its own that outlives its client, as a container does.
STAND_IN = """#!{python}
import os, pathlib, signal, subprocess, sys, time
place = pathlib.Path(sys.argv[0]).parent
with (place / "asked").open("a") as file:
    file.write(" ".join(sys.argv[1:3]) + "\\n")
verb, rest = sys.argv[1], sys.argv[2:]
if verb == "image":
    sys.exit(0 if (place / "pulled").exists() else 1)
if verb == "pull":
    if rest[0] == "no/such":
        sys.exit("Error: manifest for no/such not found")
    (place / "pulled").touch()
if verb == "rm":
    os.killpg(int((place / rest[-1]).read_text()), signal.SIGKILL)
if verb == "run":
    name, at = rest[rest.index("--name") + 1], rest.index("--entrypoint")
    inside = subprocess.Popen([rest[at + 1], *rest[at + 3:]], start_new_session=True)
    (place / name).write_text(str(inside.pid))
    signal.signal(signal.SIGTERM, lambda *_: inside.terminate())
    sys.exit(inside.wait())
"""


def with_docker(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(STAND_IN.replace("{python}", sys.executable))
    program.chmod(0o755)
    (program.parent / "python").symlink_to(sys.executable)
    return {"PATH": f"{program.parent}{os.pathsep}/usr/bin{os.pathsep}/bin"}


def asked(tmp_path: Path) -> list[str]:
    return (tmp_path / "bin" / "asked").read_text().splitlines()


def test_the_job_runs_in_its_image_with_its_channel(play: Play, tmp_path: Path) -> None:
    agent = play(
        {"code": "import anygpu\nanygpu.log(loss=1, step=1)\nprint('inside')", "image": "some/image"}
    )
    agent.server.work["setup"] = ["echo set up"]
    assert agent.run(**with_docker(tmp_path)) == 0
    assert bytes(agent.server.log) == b"set up\ninside\n"
    assert agent.server.points()[0][:2] == ["loss", 1]
    assert asked(tmp_path)[:4] == ["info", "image inspect", "pull some/image", "run --rm"]


def test_a_container_that_does_not_stop_is_removed_by_name(play: Play, tmp_path: Path) -> None:
    code = "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
    agent = play({"code": code, "image": "some/image", "grace_s": 0.3})
    agent.start(**with_docker(tmp_path))
    agent.server.wait_for(lambda: agent.server.log.endswith(b"\n"))
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    until(lambda: not alive(int(agent.server.log.split(b"\n")[0])))
    assert "rm --force" in asked(tmp_path)


def test_the_container_of_a_dead_agent_is_killed(play: Play, tmp_path: Path) -> None:
    agent = play(
        {"code": "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)", "image": "some/image"}
    )
    env = with_docker(tmp_path)
    process = agent.start(**env)
    agent.server.wait_for(lambda: agent.server.log.endswith(b"\n"))
    process.kill()
    process.wait()
    assert agent.run("--deliver", **env) == 0
    assert not alive(int(agent.server.log.split(b"\n")[0]))
    assert "rm --force" in asked(tmp_path)


def test_an_image_that_cannot_be_pulled_fails_with_the_runtimes_output(play: Play, tmp_path: Path) -> None:
    agent = play({"code": "print('never')", "image": "no/such"})
    assert agent.run(**with_docker(tmp_path)) == 0
    assert agent.server.end is not None
    assert agent.server.end["message"] == (
        "image: the container image no/such could not be pulled (exit code 1). Check its name, and that this machine "
        "may read from its registry. The output ends with:\nError: manifest for no/such not found"
    )


def test_a_machine_without_a_runtime_fails_with_advice(play: Play, tmp_path: Path) -> None:
    agent = play({"code": "print('never')", "image": "some/image"})
    (tmp_path / "bin").mkdir()
    assert agent.run(PATH=str(tmp_path / "bin")) == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert agent.server.end["message"].startswith(
        "image: this machine cannot run the container image some/image, because neither docker nor podman works on "
        "it (docker is not installed; podman is not installed)."
    )
