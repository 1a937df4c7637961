"""The job's image: its command runs in a container where this machine has a runtime for one.

The attempt's directory lies at the same path inside, so that the working directory, the channel and the checkpoints are
the same files; the container bears the attempt's name and runs as our own user, so that it can be found and ended like
any other process of the attempt. Values of the environment travel in the environment, never on a command line.
"""

from __future__ import annotations

import os
import subprocess

from anygpu.agent.prepare.environment import find_program
from anygpu.agent.run.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

RUNTIMES = ("docker", "podman")
QUERY_TIMEOUT_S = 20.0
# Of the host, and wrong inside.
EXCLUDED_VARIABLES = frozenset(
    (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "VIRTUAL_ENV",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
    )
)
EXEC_JOB = 'exec "$@"'


class ContainerRuntime:
    """A program that runs containers, and answered when it was asked."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: str, path: str) -> None:
        self.kind, self.path = kind, path


def find_runtime(image: str) -> ContainerRuntime:
    troubles = []
    for kind in RUNTIMES:
        path = find_program(kind)
        trouble = _runtime_problem(path) if path else f"{kind} is not installed"
        if path and not trouble:
            return ContainerRuntime(kind, path)
        troubles.append(trouble if trouble.startswith(kind) else f"{kind}: {trouble}")
    raise CannotStart(
        f"image: the job wants {image}, and this machine can run no containers ({'; '.join(troubles)}); "
        "leave out `image` and name `requirements` instead, or choose another backend"
    )


def has_image(runtime: ContainerRuntime, image: str) -> bool:
    return _query([runtime.path, "image", "inspect", image])[0] == 0


def pull_command(runtime: ContainerRuntime, image: str) -> list[str]:
    return [runtime.path, "pull", image]


def remove_command(runtime: ContainerRuntime, name: str) -> list[str]:
    return [runtime.path, "rm", "--force", name]


def run_command(
    runtime: ContainerRuntime,
    image: str,
    argv: Sequence[str],
    *,
    name: str,
    cwd: str,
    home: str,
    env: dict[str, str],
    setup: Sequence[str] = (),
    data: str | None = None,
    has_gpus: bool = False,
) -> list[str]:
    """What starts the job: a value, so that it can be looked at before anything runs."""
    command = [runtime.path, "run", "--rm", "--init", "--name", name, "--network", "host", "--ipc", "host"]
    command += _user_options(runtime)
    command += ["--volume", f"{home}:{home}", "--workdir", cwd]
    if data is not None and os.path.commonpath([data, home]) != home:
        command += ["--volume", f"{data}:{data}:ro"]
    command += _gpu_options(runtime, env.get("CUDA_VISIBLE_DEVICES"), has_gpus)
    command += ["--env", f"HOME={home}"]
    for variable in sorted(set(env) - EXCLUDED_VARIABLES):
        command += ["--env", variable]
    return [
        *command,
        "--entrypoint",
        "/bin/sh",
        image,
        "-c",
        "\n".join(["set -e", *setup, EXEC_JOB]),
        "sh",
        *argv,
    ]


def _user_options(runtime: ContainerRuntime) -> list[str]:
    if runtime.kind == "podman":
        return ["--userns", "keep-id"]
    return ["--user", f"{os.getuid()}:{os.getgid()}"]


def _gpu_options(runtime: ContainerRuntime, chosen: str | None, has_gpus: bool) -> list[str]:
    """Those the attempt holds; all where nobody has divided them; none when it asked for none."""
    if not has_gpus or chosen == "":
        return []
    if runtime.kind == "podman":
        devices = chosen.split(",") if chosen else ["all"]
        return [word for device in devices for word in ("--device", f"nvidia.com/gpu={device}")]
    return ["--gpus", f'"device={chosen}"' if chosen else "all"]


def _runtime_problem(path: str) -> str:
    """Why it cannot be used: the client alone is no runtime, and its service may not be ours to use."""
    code, said = _query([path, "info"])
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return "" if code == 0 else (lines[-1] if lines else f"it ended with {code}")


def _query(argv: list[str]) -> tuple[int, str]:
    try:
        ran = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=QUERY_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return ran.returncode, ran.stderr.decode("utf-8", "replace")
