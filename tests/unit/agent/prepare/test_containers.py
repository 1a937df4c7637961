"""The command that runs a job in a container."""

from __future__ import annotations

import itertools
import os

import pytest

from anygpu.agent.prepare.containers import ContainerRuntime, remove_command, run_command

DOCKER, PODMAN = ContainerRuntime("docker", "/usr/bin/docker"), ContainerRuntime("podman", "/usr/bin/podman")
HOME = "/home/u/.anygpu/attempts/anygpu-1-1"


def built(runtime: ContainerRuntime = DOCKER, **more: object) -> list[str]:
    said = {
        "name": "anygpu-1-1",
        "cwd": f"{HOME}/work",
        "attempt_dir": HOME,
        "env": {"PATH": "/bin", "HOME": "/home/u", "HF_TOKEN": "hunter2", "ANYGPU_DIR": f"{HOME}/channel"},
        **more,
    }
    return run_command(runtime, "nvcr.io/pytorch:25.01", ["python", "train.py", "--lr", "1"], **said)  # type: ignore[arg-type]


def values(command: list[str], flag: str) -> list[str]:
    return [after for word, after in itertools.pairwise(command) if word == flag]


def test_the_container_has_the_attempts_name_and_is_removed_at_its_end() -> None:
    assert built()[:6] == ["/usr/bin/docker", "run", "--rm", "--init", "--name", "anygpu-1-1"]
    assert remove_command(DOCKER, "anygpu-1-1") == ["/usr/bin/docker", "rm", "--force", "anygpu-1-1"]


def test_the_attempts_directory_is_at_the_same_path_inside() -> None:
    assert values(built(), "--volume") == [f"{HOME}:{HOME}"]
    assert values(built(), "--workdir") == [f"{HOME}/work"]


def test_a_dataset_outside_of_it_is_mounted_read_only() -> None:
    assert values(built(dataset="/data/digits"), "--volume")[1:] == ["/data/digits:/data/digits:ro"]
    assert values(built(dataset=f"{HOME}/dataset/x"), "--volume") == [f"{HOME}:{HOME}"]


def test_no_value_of_the_environment_is_on_the_command_line() -> None:
    assert values(built(), "--env") == [f"HOME={HOME}", "ANYGPU_DIR", "HF_TOKEN"]
    assert not any("hunter2" in word for word in built())


def test_the_set_up_runs_inside_before_the_job() -> None:
    command = built(setup=["pip install x"])
    assert command[command.index("nvcr.io/pytorch:25.01") :] == [
        "nvcr.io/pytorch:25.01",
        "-c",
        'set -e\npip install x\nexec "$@"',
        "sh",
        "python",
        "train.py",
        "--lr",
        "1",
    ]


@pytest.mark.parametrize(
    ("runtime", "chosen", "has_gpus", "words"),
    [
        (DOCKER, None, True, ["--gpus", "all"]),
        (DOCKER, "GPU-a,GPU-b", True, ["--gpus", '"device=GPU-a,GPU-b"']),
        (DOCKER, "", True, []),
        (DOCKER, None, False, []),
        (PODMAN, "0,1", True, ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"]),
        (PODMAN, None, True, ["--device", "nvidia.com/gpu=all"]),
    ],
)
def test_the_container_gets_the_attempts_gpus(
    runtime: ContainerRuntime, chosen: str | None, has_gpus: bool, words: list[str]
) -> None:
    env = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    plain = built(runtime, env=env)
    with_gpus = built(runtime, env=env, has_gpus=has_gpus)
    at = plain.index("--env")
    assert with_gpus == [*plain[:at], *words, *plain[at:]]


def test_the_container_runs_as_the_agents_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert values(built(DOCKER), "--user") == [f"{os.getuid()}:{os.getgid()}"]
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert values(built(PODMAN), "--userns") == ["keep-id"]
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert "--userns" not in built(PODMAN)
