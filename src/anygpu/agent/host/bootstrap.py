"""The first program that the server runs on a machine over SSH. It installs the agent and passes on a request.

The program is sent as text, and any Python 3 can run it. Nothing needs to be installed on the machine.
Standard input carries one line with the request and, if the machine does not have the agent yet, the agent's
archive. If the transfer of the archive breaks, the next try sends only the missing bytes.
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
    """Print a reply. Its prefix distinguishes it from output of the login shell."""
    sys.stdout.write("anygpu:" + json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    transfer = json.loads(sys.stdin.buffer.readline())
    home = os.path.join(os.path.expanduser("~"), ".anygpu")
    folder = os.path.join(home, "agent")
    agent = os.path.join(folder, transfer["sha256"] + ".pyz")
    try:
        if not os.path.exists(agent):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            receive_agent(agent, transfer)
            remove_old_files(folder)
        sys.path.insert(0, agent)
        from anygpu.agent.host.requests import handle_request

        handle_request(home, agent, transfer["request"], print_reply)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        print_reply({"error": "disk_full" if full else "failed", "detail": str(error)})
        sys.exit(1)


def receive_agent(agent: str, transfer: dict[str, Any]) -> None:
    draft = agent + "." + transfer["draft"] + ".part"
    have = os.path.getsize(draft) if os.path.exists(draft) else 0
    if have > transfer["size"]:
        os.unlink(draft)
        have = 0
    print_reply({"send_from": have})
    with open(draft, "ab") as file:
        append_input(file, transfer["size"] - have)
    with open(draft, "rb") as file:
        actual = hashlib.sha256(file.read()).hexdigest()
    if actual != transfer["sha256"]:
        os.unlink(draft)
        print_reply(
            {
                "error": "damaged",
                "detail": "the agent's file was damaged during the transfer to this machine; it is sent again the next "
                "time. The received file has the sha256 " + actual,
            }
        )
        sys.exit(1)
    os.replace(draft, agent)


def append_input(file: BinaryIO, left: int) -> None:
    while left:
        block = sys.stdin.buffer.read(min(left, 1 << 16))
        if not block:
            sys.exit(1)  # the connection is lost; the next try continues here
        file.write(block)
        file.flush()
        left -= len(block)


def remove_old_files(folder: str) -> None:
    """Remove agents of old versions, and incomplete archives from broken transfers."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if time.time() - os.stat(path).st_mtime > RETENTION_S:
            os.unlink(path)


if __name__ == "__main__":
    main()
