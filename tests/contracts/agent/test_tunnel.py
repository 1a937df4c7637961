"""An agent that reaches its server through a tunnel whose port changes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import archive_of, content, saved
from tests.contracts.agent.test_sender import COUNTED, COUNTING
from tests.contracts.agent.tunnel import Tunnel, by_rendezvous
from tests.contracts.agent.waiting import spooled, until

Play = Callable[..., Agent]
Dig = Callable[[Agent], Tunnel]

TALKING = """
import time
while True:
    print(time.time(), flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def dig() -> Iterator[Dig]:
    dug: list[Tunnel] = []

    def build(agent: Agent) -> Tunnel:
        dug.append(Tunnel(agent.server.port))
        dug[-1].announce(agent)
        return dug[-1]

    yield build
    for tunnel in dug:
        tunnel.cut()


def test_the_claim_waits_for_the_tunnel(play: Play, dig: Dig) -> None:
    agent = play({"code": "print('at last')"})
    by_rendezvous(agent)
    agent.start()
    time.sleep(0.3)
    dig(agent)
    assert agent.finish() == 0
    assert bytes(agent.server.log) == b"at last\n"


def test_a_new_tunnel_on_another_port_loses_and_duplicates_nothing(play: Play, dig: Dig) -> None:
    agent = play({"code": COUNTING})
    by_rendezvous(agent)
    first = dig(agent)
    agent.start()
    agent.server.wait_for(lambda: len(agent.server.log) > 20)
    first.cut()
    time.sleep(0.3)
    dig(agent)
    assert agent.finish() == 0
    assert bytes(agent.server.log) == COUNTED


def seconds_until_heard(agent: Agent) -> float:
    """From now until the server hears what the script says now."""
    began, heard = time.monotonic(), len(agent.server.frames)
    agent.server.wait_for(lambda: len(agent.server.frames) > heard)
    return agent.server.arrived_at[heard] - began


@pytest.mark.extended
def test_the_spool_is_sent_as_soon_as_there_is_a_tunnel(play: Play, dig: Dig) -> None:
    agent = play({"code": TALKING, "grace_s": 0.2}, heartbeat_s=20)
    by_rendezvous(agent)
    tunnel = dig(agent)
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.count(b"\n") > 3)
    took = []
    for _ in range(3):
        tunnel.cut()
        time.sleep(3.0)  # long enough for the waits between tries to have grown to a second and more
        tunnel = dig(agent)
        took.append(seconds_until_heard(agent))
    assert min(took) < 0.5  # at least once, as the machine may be busy
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0


def test_a_silent_tunnel_is_left_when_another_is_announced(play: Play, dig: Dig) -> None:
    agent = play({"code": TALKING, "grace_s": 0.2}, heartbeat_s=20)
    by_rendezvous(agent)
    first = dig(agent)
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.count(b"\n") > 3)
    first.silent = True
    time.sleep(0.5)
    dig(agent)
    assert seconds_until_heard(agent) < 20  # not when the request gives up, which is 30 s away
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0


def test_transfers_continue_through_a_new_tunnel(play: Play, dig: Dig) -> None:
    """Signed addresses that begin with / lie wherever the listener is by then."""
    code = "import anygpu\nopen('m.pt', 'wb').write(b'm' * 100000)\nanygpu.checkpoint('m.pt', step=7)"
    agent = play({"argv": ["python", "-c", code]})
    archive_of(agent.server, {"big.bin": bytes(range(256)) * 4000})
    by_rendezvous(agent)
    tunnels = [dig(agent)]

    def move(path: str, count: int) -> str | None:
        if count == 1 and path.startswith(("/file/", "/blob/")):
            tunnels.append(dig(agent))
            tunnels[-2].cut()
            return "cut"
        return None

    agent.server.fault = move
    agent.start()
    assert agent.finish() == 0
    [one] = saved(agent.server)
    assert hashlib.sha256(content(agent.server, one["files"][0])).hexdigest() == one["files"][0]["sha256"]
    assert len(tunnels) == 3


def test_reports_of_a_dead_agent_are_delivered_through_the_current_tunnel(play: Play, dig: Dig) -> None:
    agent = play({"code": TALKING})
    by_rendezvous(agent)
    first = dig(agent)
    process = agent.start()
    agent.server.wait_for(lambda: agent.server.log.count(b"\n") > 3)
    first.cut()
    heard, stored = len(agent.server.log), len(spooled(agent.directory))
    until(lambda: len(spooled(agent.directory)) > stored + 500)
    process.kill()
    process.wait()
    dig(agent)
    assert agent.run("--deliver") == 0
    assert len(agent.server.log) > heard
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "agent_lost"
