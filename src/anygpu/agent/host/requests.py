"""What a server asks of this machine over SSH. Each answers with one line of JSON; a start goes on to tell the end.

As subcommands of the .pyz: `--check`, `--list`, `--start <directory> [--gpus N] [--cpus N]`, `--watch <directory>`,
`--kill <name>`. Attempts lie in `~/.anygpu/attempts/[<owner>/]<name>`: servers that share a machine do not meet.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reply = Callable[[dict[str, Any]], None]

EXIT_DONE, EXIT_USAGE = 0, 2


def main(argv: list[str]) -> int:
    """The subcommands, for people and for tests."""
    home = os.path.join(os.path.expanduser("~"), ".anygpu")
    options = dict(zip(argv[2::2], argv[3::2]))
    asked: dict[str, Any] = {"do": argv[0][2:], "target": argv[1] if len(argv) > 1 else ""}
    for name in ("gpus", "cpus"):
        if f"--{name}" in options:
            asked[name] = int(options[f"--{name}"])
    if asked["do"] in ("start", "watch", "kill") and not asked["target"]:
        sys.stderr.write(f"anygpu-agent: {argv[0]} needs a directory or a name\n")
        return EXIT_USAGE
    handle_request(home, os.path.abspath(sys.argv[0]), asked, _print_json)
    return EXIT_DONE


def handle_request(home: str, agent: str, asked: dict[str, Any], reply: Reply) -> None:
    """One request. `target` is an attempt's name, or its directory."""
    attempts = os.path.join(home, "attempts", asked.get("owner", ""))
    if asked["do"] == "check":
        from anygpu.agent.host.check import check_host

        reply({**check_host(home, asked.get("cpu_count", 0)), "names": running_attempts(attempts)})
    elif asked["do"] == "list":
        reply({"names": running_attempts(attempts)})
    elif asked["do"] == "kill":
        reply(kill_and_block(_attempt_directory(attempts, asked["target"])))
    else:
        _start_and_watch(_attempt_directory(attempts, asked["target"]), agent, asked, reply)


def running_attempts(attempts: str) -> list[str]:
    """The attempts of this owner of which anything still runs; directories long dead are removed on the way."""
    from anygpu.agent.attempt_dir import remove_old_attempts
    from anygpu.agent.host.processes import processes_by_attempt

    names = [name for name in processes_by_attempt() if os.path.isdir(os.path.join(attempts, name))]
    remove_old_attempts(attempts, names)
    return sorted(names)


def kill_and_block(directory: str) -> dict[str, Any]:
    """Nothing of it runs any more, and a start that is still on its way will find it ended."""
    from anygpu.agent.host.processes import kill_attempt
    from anygpu.agent.host.start import start_lock

    if not os.path.isdir(directory):
        return {"known": False, "gone": True}
    with start_lock(directory):
        with open(os.path.join(directory, "ended"), "w"):
            pass
        return {"known": True, "gone": kill_attempt(os.path.basename(directory))}


def _start_and_watch(directory: str, agent: str, asked: dict[str, Any], reply: Reply) -> None:
    from anygpu.agent.host.start import StartRequest, start_agent, wait_for_agent

    child = None
    if asked["do"] == "start":
        answer, child = start_agent(StartRequest(directory, agent, asked))
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
        raise OSError(f"{target!r} is not an attempt's name")
    return os.path.join(attempts, target)


def _print_json(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
