"""Requests that the server sends to this machine over SSH. Each is answered with one line of JSON.

`start` sends a second line when the agent has ended. The requests are also subcommands of the .pyz file:
`--check`, `--list`, `--start <directory> [--gpus N] [--cpus N]`, `--watch <directory>`, `--kill <name>`.
Attempts are in `~/.anygpu/attempts/[<owner>/]<name>`, so that servers that share a machine do not interfere.
"""

from __future__ import annotations

import json
import os
import sys

from anygpu.agent import exit_codes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reply = Callable[[dict[str, Any]], None]


def main(argv: list[str]) -> int:
    """Run the subcommand in `argv` and return its exit code."""
    home = os.path.join(os.path.expanduser("~"), ".anygpu")
    options = dict(zip(argv[2::2], argv[3::2]))
    request: dict[str, Any] = {"do": argv[0][2:], "target": argv[1] if len(argv) > 1 else ""}
    for name in ("gpus", "cpus"):
        if f"--{name}" in options:
            request[name] = int(options[f"--{name}"])
    if request["do"] in ("start", "watch", "kill") and not request["target"]:
        sys.stderr.write(
            f"anygpu-agent: {argv[0]} needs one more argument: the directory or the name of an attempt\n"
        )
        return exit_codes.USAGE
    handle_request(home, os.path.abspath(sys.argv[0]), request, _print_json)
    return 0


def handle_request(home: str, agent: str, request: dict[str, Any], reply: Reply) -> None:
    """Handle one request. Its `target` is the name or the directory of an attempt."""
    attempts = os.path.join(home, "attempts", request.get("owner", ""))
    if request["do"] == "check":
        from anygpu.agent.host.check import check_host

        reply({**check_host(home, request.get("cpu_count", 0)), "names": _list_and_clean(attempts)})
    elif request["do"] == "relay":
        from anygpu.agent.host.mailboxes import serve_mailboxes

        serve_mailboxes(request["root"], reply)
    elif request["do"] == "list":
        reply({"names": _list_and_clean(attempts)})
    elif request["do"] == "kill":
        reply(kill_and_block(_attempt_directory(attempts, request["target"])))
    else:
        _start_and_watch(_attempt_directory(attempts, request["target"]), agent, request, reply)


def running_attempts(attempts: str) -> list[str]:
    """Return the names of the attempts below `attempts` that still run."""
    from anygpu.agent.host.processes import processes_by_attempt

    return sorted(name for name in processes_by_attempt() if os.path.isdir(os.path.join(attempts, name)))


def _list_and_clean(attempts: str) -> list[str]:
    """Return the names of the attempts that still run, and remove the directories of old ones."""
    from anygpu.agent.attempt_dir import remove_old_attempts

    names = running_attempts(attempts)
    remove_old_attempts(attempts, names)
    return names


def kill_and_block(directory: str) -> dict[str, Any]:
    """Kill an attempt, and write the file `ended`, so that a start request that arrives later is refused.

    The directory is created if it does not exist: the start request may still be on its way.
    """
    from anygpu.agent.host.processes import kill_attempt
    from anygpu.agent.host.start import start_lock, wait_for_end_report

    known = os.path.isdir(directory)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    wait_for_end_report(directory)
    with start_lock(directory):
        with open(os.path.join(directory, "ended"), "w"):
            pass
        return {"known": known, "gone": kill_attempt(os.path.basename(directory))}


def _start_and_watch(directory: str, agent: str, request: dict[str, Any], reply: Reply) -> None:
    from anygpu.agent.host.start import StartRequest, start_agent, wait_for_agent

    child = None
    if request["do"] == "start":
        answer, child = start_agent(StartRequest(directory, agent, request))
        reply(answer)
        if answer["agent"] not in ("started", "alive"):
            return
    ended = wait_for_agent(directory, child)
    if ended is not None:
        reply(ended)


def _attempt_directory(attempts: str, target: str) -> str:
    if os.path.isabs(target):
        return os.path.normpath(target)
    if not target or "/" in target or target.startswith("."):
        raise OSError(
            f"{target!r} is not the name of an attempt's directory. Give a name without '/' that does not "
            "start with '.', or an absolute path"
        )
    return os.path.join(attempts, target)


def _print_json(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
