"""Give the server access to the mailboxes of a relay in a directory of this machine, over SSH.

The server sends one request per line on standard input, and gets one line back for each, in the same order. The command
ends with the SSH connection, so nothing stays on the machine.
"""

from __future__ import annotations

import base64
import json
import os
import sys

from anygpu.agent.link.mailbox import MailboxDirectory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

    from anygpu.agent.link.mailbox import MailboxDraft

    Reply = Callable[[dict[str, Any]], None]

READ_BYTES = 256 * 1024


def serve_mailboxes(root: str, reply: Reply) -> None:
    """Answer requests until standard input ends."""
    service = MailboxService(MailboxDirectory(os.path.expanduser(root)))
    reply({"relay": service.root})
    for line in iter(sys.stdin.buffer.readline, b""):
        request = json.loads(line)
        try:
            answer = service.handle(request)
        except (OSError, ValueError, KeyError) as error:
            answer = {"failure": str(error)}
        reply({"n": request["n"], **answer})
    service.close()


class MailboxService:
    """Handles the requests. Open files have the number of the request that opened them."""

    def __init__(self, directory: MailboxDirectory) -> None:
        self._directory = directory
        self._files: dict[int, IO[bytes]] = {}
        self._drafts: dict[int, MailboxDraft] = {}

    @property
    def root(self) -> str:
        return self._directory.root

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        handler = getattr(self, f"_do_{request['do']}")
        result: dict[str, Any] = handler(request)
        return result

    def close(self) -> None:
        for number in [*self._files]:
            self._files.pop(number).close()
        for number in [*self._drafts]:
            self._drafts.pop(number).discard()

    def _do_create(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"path": self._directory.create(request["mailbox"])}

    def _do_versions(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"versions": self._directory.versions(request["mailboxes"])}

    def _do_names(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"names": self._directory.names()}

    def _do_remove(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"done": self._directory.remove(request["mailbox"])}

    def _do_open(self, request: dict[str, Any]) -> dict[str, Any]:
        file = self._directory.open(request["mailbox"], request["name"])
        if file is None:
            return {"file": None}
        self._files[request["n"]] = file
        return {"file": request["n"]}

    def _do_read(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"data": base64.b64encode(self._files[request["file"]].read(READ_BYTES)).decode()}

    def _do_begin(self, request: dict[str, Any]) -> dict[str, Any]:
        self._drafts[request["n"]] = self._directory.begin(request["mailbox"], request["name"])
        return {"draft": request["n"]}

    def _do_write(self, request: dict[str, Any]) -> dict[str, Any]:
        self._drafts[request["draft"]].write(base64.b64decode(request["data"]))
        return {}

    def _do_publish(self, request: dict[str, Any]) -> dict[str, Any]:
        self._drafts[request["draft"]].publish()
        return {}

    def _do_close(self, request: dict[str, Any]) -> dict[str, Any]:
        """Close a file or discard a draft that was not published."""
        file, draft = self._files.pop(request["opened"], None), self._drafts.pop(request["opened"], None)
        if file is not None:
            file.close()
        if draft is not None:
            draft.discard()
        return {}
