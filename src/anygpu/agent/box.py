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

    Say = Callable[[dict[str, Any]], None]

DONE, USAGE = 0, 2


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
        return USAGE
    serve(home, os.path.abspath(sys.argv[0]), asked, _print)
    return DONE


def serve(home: str, agent: str, asked: dict[str, Any], say: Say) -> None:
    """One request. `target` is an attempt's name, or its directory."""
    attempts = os.path.join(home, "attempts", asked.get("owner", ""))
    if asked["do"] == "check":
        from anygpu.agent.box_check import check

        say({**check(home, asked.get("cpu_count", 0)), "names": alive(attempts)})
    elif asked["do"] == "list":
        say({"names": alive(attempts)})
    elif asked["do"] == "kill":
        say(kill(_directory(attempts, asked["target"])))
    else:
        _start_and_watch(_directory(attempts, asked["target"]), agent, asked, say)


def alive(attempts: str) -> list[str]:
    """The attempts of this owner of which anything still runs; directories long dead are removed on the way."""
    from anygpu.agent.box_processes import marked
    from anygpu.agent.box_tidy import tidy

    names = [name for name in marked() if os.path.isdir(os.path.join(attempts, name))]
    tidy(attempts, names)
    return sorted(names)


def kill(directory: str) -> dict[str, Any]:
    """Nothing of it runs any more, and a start that is still on its way will find it ended."""
    from anygpu.agent.box_processes import kill_all
    from anygpu.agent.box_start import starting

    if not os.path.isdir(directory):
        return {"known": False, "gone": True}
    with starting(directory):
        with open(os.path.join(directory, "ended"), "w"):
            pass
        return {"known": True, "gone": kill_all(os.path.basename(directory))}


def _start_and_watch(directory: str, agent: str, asked: dict[str, Any], say: Say) -> None:
    from anygpu.agent.box_start import Order, start, watch

    child = None
    if asked["do"] == "start":
        answer, child = start(Order(directory, agent, asked))
        say(answer)
        if answer["agent"] not in ("started", "alive"):
            return
    ended = watch(directory, child)
    if ended is not None:
        say(ended)


def _directory(attempts: str, target: str) -> str:
    if os.path.isabs(target):
        return os.path.normpath(target)
    if not target or "/" in target or target.startswith("."):
        raise OSError(f"{target!r} is not an attempt's name")
    return os.path.join(attempts, target)


def _print(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
