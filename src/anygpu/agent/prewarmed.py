"""A prewarmed agent: an agent that is started before its attempt exists, so that the attempt starts faster.

A prewarmed agent has imported all its modules, and receives the attempt's directory over a socket. The
processes of an attempt are found by the variable ANYGPU_NAME in /proc/<pid>/environ. The kernel reads that
file from the memory of the process, so the agent writes the attempt's name into its own memory before it does
anything else.
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
ENV_START_FIELD = 47  # field of /proc/self/stat, counted after the program's name


def wait_for_attempt() -> str | None:
    """Wait for the backend to assign an attempt. Return its directory, or None if the socket was closed."""
    _write_name(
        PLACEHOLDER_NAME
    )  # if the kernel does not allow it, fail now, before an attempt depends on this agent
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
    """Write the attempt's name into this process's memory, so that /proc/<pid>/environ shows it."""
    with open("/proc/self/stat", "rb") as stat:
        start = int(stat.read().rpartition(b")")[2].split()[ENV_START_FIELD])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        position = start + memory.read(131072).index(b"ANYGPU_NAME=" + PLACEHOLDER_NAME.encode())
        memory.seek(position + len("ANYGPU_NAME="))
        memory.write(name.encode().ljust(len(PLACEHOLDER_NAME), b"\0"))


def _import_agent() -> None:
    import anygpu.agent.attempt
    import anygpu.agent.delivery  # noqa: F401
