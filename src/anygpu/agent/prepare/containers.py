"""Commands that run a job in a container, with docker or podman.

The attempt's directory has the same path inside the container and outside. So the agent and the job see the
same working directory, checkpoints and files for `import anygpu`. The container has the attempt's name and
runs as the agent's user, so that it can be found and killed like any other process of the attempt.
Environment values are passed through the environment, never on a command line, where other users could read
them.
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
# Variables of the host that are wrong inside a container.
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
    """A container program (docker or podman) that works on this machine."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: str, path: str) -> None:
        self.kind, self.path = kind, path


def find_runtime(image: str) -> ContainerRuntime:
    """Return a container program that works on this machine, or raise `CannotStart`."""
    runtime, problems = search_runtime()
    if runtime is not None:
        return runtime
    raise CannotStart(
        f"image: this machine cannot run the container image {image}, because neither docker nor podman "
        f"works on it ({'; '.join(problems)}). Install one of them, set `requirements` instead of "
        "`image`, or choose another backend with --on."
    )


def search_runtime() -> tuple[ContainerRuntime | None, list[str]]:
    """Return a container program that works on this machine, or None and why each program cannot be used."""
    problems = []
    for kind in RUNTIMES:
        path = find_program(kind)
        problem = _runtime_problem(path) if path else f"{kind} is not installed"
        if path and not problem:
            return ContainerRuntime(kind, path), []
        problems.append(problem if problem.startswith(kind) else f"{kind}: {problem}")
    return None, problems


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
    attempt_dir: str,
    env: dict[str, str],
    setup: Sequence[str] = (),
    dataset: str | None = None,
    has_gpus: bool = False,
) -> list[str]:
    """Return the command that starts the job in a container of `image`."""
    command = [runtime.path, "run", "--rm", "--init", "--name", name, "--network", "host", "--ipc", "host"]
    command += _user_options(runtime)
    command += ["--volume", f"{attempt_dir}:{attempt_dir}", "--workdir", cwd]
    if not _is_inside(cwd, attempt_dir):  # the job runs in place, in a directory of the user
        command += ["--volume", f"{cwd}:{cwd}"]
    if dataset is not None and not _is_inside(dataset, attempt_dir):
        command += ["--volume", f"{dataset}:{dataset}:ro"]
    command += _gpu_options(runtime, env.get("CUDA_VISIBLE_DEVICES"), has_gpus)
    command += ["--env", f"HOME={attempt_dir}"]
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


def _is_inside(path: str, directory: str) -> bool:
    return os.path.commonpath([path, directory]) == directory


def _user_options(runtime: ContainerRuntime) -> list[str]:
    if runtime.kind == "podman":
        # podman refuses keep-id for root, whose containers run as root anyway.
        return ["--userns", "keep-id"] if os.getuid() else []
    return ["--user", f"{os.getuid()}:{os.getgid()}"]


def _gpu_options(runtime: ContainerRuntime, chosen: str | None, has_gpus: bool) -> list[str]:
    """Return the container options for the attempt's GPUs.

    `chosen` is the value of CUDA_VISIBLE_DEVICES: the GPUs to use. None means all GPUs, "" means no GPU.
    """
    if not has_gpus or chosen == "":
        return []
    if runtime.kind == "podman":
        devices = chosen.split(",") if chosen else ["all"]
        return [word for device in devices for word in ("--device", f"nvidia.com/gpu={device}")]
    return ["--gpus", f'"device={chosen}"' if chosen else "all"]


def _runtime_problem(path: str) -> str:
    """Return why the container program at `path` cannot be used, such as a stopped service; "" if it works."""
    code, errors = _query([path, "info"])
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return "" if code == 0 else (lines[-1] if lines else f"exit code {code}")


def _query(argv: list[str]) -> tuple[int, str]:
    """Run a command, and return its exit code and its error output."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=QUERY_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stderr.decode("utf-8", "replace")
