"""The report of the end of an attempt, and whether the agent then waits for other nodes."""

import time
from pathlib import Path
from typing import Any, cast

import pytest

from anygpu.agent import exit_codes
from anygpu.agent.attempt_dir import AttemptDir
from anygpu.agent.delivery import send_end
from anygpu.agent.link.client import ServerClient


class GangServer:
    """A server that tells every agent to wait for the other nodes."""

    def __init__(self) -> None:
        self.address = self
        self.ends: list[Any] = []

    def wait(self, seconds: float) -> None:
        return

    def call(self, method: str, path: str, body: Any) -> Any:
        self.ends.append(body)
        return {"ok": True, "wait": True}


@pytest.mark.parametrize(("outcome", "waits"), [("exited", 1), ("agent_lost", 0)])
def test_an_agent_waits_for_other_nodes_unless_it_has_failed_itself(
    tmp_path: Path, outcome: str, waits: int
) -> None:
    server, waited = GangServer(), list[str]()
    end = {"outcome": outcome, "exit_code": None, "signal": None, "last_seq": 0}
    code = send_end(
        cast(ServerClient, server),
        end,
        time.monotonic() + 60,
        AttemptDir(str(tmp_path)),
        lambda: waited.append(outcome),
    )
    assert (code, server.ends, len(waited)) == (exit_codes.DELIVERED, [end], waits)
