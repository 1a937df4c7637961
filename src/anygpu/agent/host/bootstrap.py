"""The first thing said to a machine over SSH. Sent as text, run by whatever Python is there.

Nothing of ours need be on the machine: the program, one line that says what is wanted, and the agent's bytes where they
are missing come through standard input. A cut in the middle leaves a draft, and the next try sends only the rest.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

RETENTION_S = 30 * 86400.0


def print_reply(facts: dict[str, Any]) -> None:
    """Whatever a login shell prints of its own, ours are the lines that begin like this."""
    sys.stdout.write("anygpu:" + json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    asked = json.loads(sys.stdin.buffer.readline())
    home = os.path.join(os.path.expanduser("~"), ".anygpu")
    folder = os.path.join(home, "agent")
    agent = os.path.join(folder, asked["sha256"] + ".pyz")
    try:
        if not os.path.exists(agent):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            receive_agent(agent, asked)
            remove_old_files(folder)
        sys.path.insert(0, agent)
        from anygpu.agent.host.requests import handle_request

        handle_request(home, agent, asked["request"], print_reply)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        print_reply({"error": "disk_full" if full else "failed", "detail": str(error)})
        sys.exit(1)


def receive_agent(agent: str, asked: dict[str, Any]) -> None:
    draft = agent + "." + asked["draft"] + ".part"
    have = os.path.getsize(draft) if os.path.exists(draft) else 0
    if have > asked["size"]:
        os.unlink(draft)
        have = 0
    print_reply({"send_from": have})
    with open(draft, "ab") as file:
        append_input(file, asked["size"] - have)
    with open(draft, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != asked["sha256"]:
        os.unlink(draft)
        print_reply({"error": "damaged", "detail": "the agent arrived damaged: its sha256 is " + found})
        sys.exit(1)
    os.replace(draft, agent)


def append_input(file: BinaryIO, left: int) -> None:
    while left:
        piece = sys.stdin.buffer.read(min(left, 1 << 16))
        if not piece:
            sys.exit(1)  # cut off; what came stays for the next try
        file.write(piece)
        file.flush()
        left -= len(piece)


def remove_old_files(folder: str) -> None:
    """Agents of versions long gone, and drafts nobody came back for."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if time.time() - os.stat(path).st_mtime > RETENTION_S:
            os.unlink(path)


if __name__ == "__main__":
    main()
