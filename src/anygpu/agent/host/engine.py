"""Start the agent as the job of an engine that gives it nothing but environment variables, such as Ray.

The engine runs `anygpu-agent.pyz --engine` with the variable ANYGPU_START, a JSON object: `ticket` (the content of
ticket.json), `directory` (where the attempts of the node are; empty: ~/.anygpu/attempts) and `gpus` (how many GPUs the
engine has given to the attempt).

An engine that kills the agent does not always kill the processes of the user's script, which have a session of their
own. A guard process therefore waits for the end of the agent. Then it kills what is left, sends the reports that the
agent could not send, and removes the directory of the attempt.
"""

from __future__ import annotations

import json
import os
import sys
import time

from anygpu.agent import exit_codes
from anygpu.agent.attempt_dir import AttemptDir, process_identity, remove_old_attempts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

START_VARIABLE = "ANYGPU_START"
# Ray repeats the variables of its job in this one.
REMOVED_VARIABLES = (START_VARIABLE, "RAY_JOB_CONFIG_JSON_ENV_VAR")
POLL_S = 0.25


def start_from_environment(deliver: Callable[[str], object]) -> int:
    """Create the directory of the attempt, start its guard, and become its agent.

    Returns only if the variable ANYGPU_START cannot be used; the result is the exit code. `deliver` sends the reports
    that a dead agent left in the directory.
    """
    try:
        start = json.loads(os.environ[START_VARIABLE])
        name = str(start["ticket"]["name"])
        directory = _make_directory(str(start.get("directory") or ""), name)
    except (KeyError, TypeError, ValueError, OSError) as error:
        sys.stderr.write(
            f"anygpu-agent: the agent cannot start from the variable {START_VARIABLE}: {error!r}\n"
        )
        return exit_codes.USAGE
    AttemptDir(directory).write_json("ticket.json", start["ticket"])
    start_guard(directory, deliver)
    agent = os.path.abspath(sys.argv[0])
    command = [sys.executable, "-I", "-S", agent, directory]
    return os.execve(sys.executable, command, _agent_environment(name, start))


def _make_directory(root: str, name: str) -> str:
    """Create and return the directory of the attempt: below `root`, the home directory, or that of temporary files."""
    if not name.startswith("anygpu-") or "/" in name:
        raise ValueError(f"{name!r} is not the name of an attempt")
    if root:
        return _create(os.path.join(os.path.expanduser(root), name))
    try:
        return _create(os.path.join(os.path.expanduser("~"), ".anygpu", "attempts", name))
    except OSError:  # a container may run as a user without a home directory
        temporary = os.environ.get("TMPDIR") or "/tmp"
        return _create(os.path.join(temporary, f"anygpu-{os.getuid()}", "attempts", name))


def _create(directory: str) -> str:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if os.stat(directory).st_uid != os.getuid():
        raise OSError(f"{directory} belongs to another user")
    return directory


def _agent_environment(name: str, start: dict[str, Any]) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if key not in REMOVED_VARIABLES}
    env["ANYGPU_NAME"] = name
    if not start.get("gpus"):
        env["CUDA_VISIBLE_DEVICES"] = ""  # a job without GPUs must not use those of another job
    return env


def start_guard(directory: str, deliver: Callable[[str], object]) -> None:
    """Start a process that cleans up after the agent, which has the id of this process.

    The guard is no child of the agent and has a session of its own, so that an engine does not kill both.
    """
    agent = process_identity(os.getpid())
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if not os.fork():
            _detach_output()
            guard(directory, agent, deliver)
    finally:
        os._exit(0)


def guard(directory: str, agent: dict[str, Any], deliver: Callable[[str], object]) -> None:
    """Wait until the agent has ended. Then kill its job, send its reports, and remove its directory."""
    from anygpu.agent.host.processes import kill_attempt, processes_by_attempt

    while _is_running(agent):
        time.sleep(POLL_S)
    kill_attempt(os.path.basename(directory))
    if os.path.exists(os.path.join(directory, "work.json")):
        deliver(directory)
    if not os.path.exists(os.path.join(directory, "work.json")):
        import shutil

        shutil.rmtree(directory, ignore_errors=True)
    remove_old_attempts(os.path.dirname(directory), processes_by_attempt())


def _is_running(agent: dict[str, Any]) -> bool:
    """Return whether the process exists and is not a zombie. Where there is no /proc, only whether its id exists."""
    try:
        with open(f"/proc/{agent['pid']}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
        return (
            state not in (b"Z", b"X")
            and process_identity(agent["pid"])["start_ticks"] == agent["start_ticks"]
        )
    except OSError:
        if os.path.isdir("/proc/self"):
            return False
    try:
        os.kill(agent["pid"], 0)
    except ProcessLookupError:
        return False
    return True


def _detach_output() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
