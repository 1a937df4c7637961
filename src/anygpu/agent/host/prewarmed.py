"""An agent started ahead: everything is imported, and the attempt's directory comes over a socket.

It must be found like any other process of its attempt, by the ANYGPU_NAME in the environment the kernel shows for it.
That environment is this process's own memory, so the name is written there before any work is done.
"""

from __future__ import annotations

import json
import os
import socket

from anygpu.agent.host.processes import PLACEHOLDER_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
MAX_FDS = 64
ENV_START_FIELD = 47  # in /proc/self/stat, counted from the field after the program's name


def wait_for_attempt() -> str | None:
    """The directory to work in, or None when whoever started us is gone."""
    _write_name(PLACEHOLDER_NAME)  # where this cannot be done it fails now, and nobody counts on us
    _import_agent()
    with socket.socket(fileno=os.dup(0)) as channel:
        message, fds, _, _ = socket.recv_fds(channel, 65536, MAX_FDS)
    if not message:
        return None
    order: dict[str, Any] = json.loads(message)
    _take_over(order, fds)
    return str(order["directory"])


def _take_over(order: dict[str, Any], fds: list[int]) -> None:
    _write_name(order["name"])
    log, *held = fds
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    os.environ.update(order["env"], ANYGPU_NAME=order["name"], ANYGPU_HOLD_FDS=",".join(map(str, held)))
    os.chdir(order["directory"])


def _write_name(name: str) -> None:
    """Write the name where the kernel looks for our environment; leave when that cannot be done."""
    with open("/proc/self/stat", "rb") as stat:
        start = int(stat.read().rpartition(b")")[2].split()[ENV_START_FIELD])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        place = start + memory.read(131072).index(b"ANYGPU_NAME=" + PLACEHOLDER_NAME.encode())
        memory.seek(place + len("ANYGPU_NAME="))
        memory.write(name.encode().ljust(len(PLACEHOLDER_NAME), b"\0"))


def _import_agent() -> None:
    import anygpu.agent.attempt
    import anygpu.agent.delivery  # noqa: F401
