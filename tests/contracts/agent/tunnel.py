"""A tunnel that forwards bytes to the server, and may stop forwarding or be cut."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from pathlib import Path

from tests.contracts.agent.agent_process import Agent


class Tunnel:
    """Each tunnel has a port of its own. A silent one still accepts, as the SSH server of a dead connection does."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self.silent = False
        self.pause_s = 0.0  # after each 64 KiB, as on a slow connection
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def announce(self, agent: Agent) -> None:
        """As the server's side does: whole or not at all."""
        draft = agent.directory / "tunnel.json.tmp"
        draft.write_text(json.dumps({"url": self.url}))
        draft.replace(agent.directory / "tunnel.json")

    def cut(self) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                return
            self._open += [client, server]
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.silent:
                    target.sendall(data)
                time.sleep(self.pause_s * len(data) / 65536)
            target.shutdown(socket.SHUT_WR)


def by_rendezvous(agent: Agent) -> None:
    """The ticket names the file instead of an address."""
    ticket: Path = agent.directory / "ticket.json"
    said = json.loads(ticket.read_text())
    del said["url"]
    ticket.write_text(json.dumps({**said, "rendezvous": "tunnel.json"}))
