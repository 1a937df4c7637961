"""An agent that reaches its server through a mailbox only."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import archive_of, content, saved
from tests.contracts.agent.relay_rig import MailboxServer
from tests.contracts.agent.test_sender import COUNTED, COUNTING
from tests.contracts.agent.test_tunnel import TALKING
from tests.contracts.agent.test_upload import SAVING_TWICE, damage_first_snapshot
from tests.contracts.agent.waiting import spooled, until
from tests.walk import content_of, paths_below

from anygpu.agent import exit_codes
from anygpu.testing.servers.failover_proxy import FailoverProxy

Play = Callable[..., Agent]
Relayed = Callable[..., MailboxServer]
SAVING = "import anygpu\nopen('m.pt', 'wb').write(b'm' * 3000000)\nanygpu.checkpoint('m.pt', step=7)"
NOWHERE = "http://127.0.0.1:9"  # no program listens there
NUMBERS = "import time\nfor i in range(400):\n print(i, flush=True)\n time.sleep(0.02)"


@pytest.fixture
def relayed(play: Play, tmp_path: Path) -> Iterator[Relayed]:
    """relayed(work, **assignment) -> the relay of a new agent, which has no address of its server."""
    made: list[MailboxServer] = []

    def build(work: dict[str, object], **assignment: object) -> MailboxServer:
        relay = MailboxServer(play(work, **assignment), tmp_path / "relay")
        relay.write_ticket()
        relay.start()
        made.append(relay)
        return relay

    yield build
    for each in made:
        each.agent.end()
        each.agent.server.stop()
        each.stop()


def test_everything_arrives_once_and_in_order(relayed: Relayed) -> None:
    agent = relayed({"code": COUNTING}).agent
    assert agent.run() == 0
    assert bytes(agent.server.log) == COUNTED
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("exited", 0)


def test_files_pass_through_the_mailbox(relayed: Relayed) -> None:
    relay = relayed({"argv": ["python", "-c", SAVING], "outputs": ["big.bin"]})
    server = relay.agent.server
    archive_of(server, {"big.bin": bytes(range(256)) * 8000})
    assert relay.agent.run() == 0
    [one] = saved(server)
    assert hashlib.sha256(content(server, one["files"][0])).hexdigest() == one["files"][0]["sha256"]
    assert {frozenset(artifact) for artifact in server.artifacts.values()}
    # Large messages are removed.
    until(lambda: sum(len(content_of(path)) for path in paths_below(relay.mailbox)) < 10_000)


def test_a_file_that_cannot_be_read_does_not_block_the_next_upload(relayed: Relayed) -> None:
    agent = relayed({"code": SAVING_TWICE}).agent
    damage_first_snapshot(agent, lambda file: os.truncate(file, 1000))
    assert agent.run() == 0
    assert [one["step"] for one in saved(agent.server)] == [2]
    assert b"shorter while the agent was uploading it" in agent.server.log


def test_an_order_arrives_before_the_next_report(relayed: Relayed) -> None:
    """The job is silent, so only the request for orders that waits at the server can bring the order soon."""
    seldom = {"heartbeat_s": 1000, "lease_s": 3000, "telemetry_every_s": 1000}
    agent = relayed({"code": "import time\nprint('on', flush=True)\ntime.sleep(1000)"}, **seldom).agent
    agent.start()
    agent.server.wait_for(lambda: b"on\n" in agent.server.log)
    until(lambda: ("GET", "/agent/v1/orders") in agent.server.requests)
    agent.server.wait_for(lambda: bool(agent.server.of_kind("telemetry")))  # the last report for a long time
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "cancelled"


def test_the_lease_expires_when_nobody_answers(relayed: Relayed) -> None:
    relay = relayed({"code": TALKING, "grace_s": 0.2}, lease_s=5, heartbeat_s=0.5, deliver_s=60)
    relay.agent.start()
    relay.agent.server.wait_for(lambda: relay.agent.server.log.count(b"\n") > 3)
    relay.stop()
    process_file = relay.agent.directory / "process.json"
    pid = json.loads(process_file.read_text())["pid"]
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "the job outlived its lease"
        time.sleep(0.1)
    relay.start()
    assert relay.agent.finish() == 0
    assert relay.agent.server.end is not None
    assert relay.agent.server.end["outcome"] == "lease_lost"


@pytest.mark.extended
def test_the_lease_is_renewed_while_somebody_answers(relayed: Relayed) -> None:
    code = "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.1)"
    agent = relayed({"code": code}, lease_s=15, heartbeat_s=1).agent
    agent.start()
    agent.server.wait_for(lambda: b"on\n" in agent.server.log)
    time.sleep(18)  # longer than the lease lasts
    (agent.directory / "work" / "go").touch()
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "exited"


def test_reports_of_a_dead_agent_are_delivered(relayed: Relayed) -> None:
    relay = relayed({"code": TALKING})
    process = relay.agent.start()
    relay.agent.server.wait_for(lambda: relay.agent.server.log.count(b"\n") > 3)
    relay.stop()
    heard, stored = len(relay.agent.server.log), len(spooled(relay.agent.directory))
    until(lambda: len(spooled(relay.agent.directory)) > stored + 500)
    process.kill()
    process.wait()
    relay.start()
    assert relay.agent.run("--deliver") == 0
    assert len(relay.agent.server.log) > heard
    assert relay.agent.server.end is not None
    assert relay.agent.server.end["outcome"] == "agent_lost"


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_doubled_when_the_relay_stops_at_random_moments(
    relayed: Relayed, seed: int
) -> None:
    chance = random.Random(seed)
    relay = relayed({"code": NUMBERS})
    server = relay.agent.server
    server.fault = lambda path, count: chance.choice([None, None, None, "drop", "500", "cut"])
    process = relay.agent.start()
    while process.poll() is None:
        time.sleep(chance.uniform(0.05, 1.0))
        relay.stop()
        time.sleep(chance.uniform(0, 0.3))
        relay.start()
    assert relay.agent.finish() == 0
    assert bytes(server.log) == b"".join(b"%d\n" % number for number in range(400))


def test_a_directory_that_is_away_for_a_moment_loses_nothing(relayed: Relayed) -> None:
    relay = relayed({"code": COUNTING})
    relay.agent.start()
    relay.agent.server.wait_for(lambda: len(relay.agent.server.log) > 20)
    away = relay.mailbox.with_name("away")
    relay.mailbox.rename(away)
    time.sleep(1)
    away.rename(relay.mailbox)
    assert relay.agent.finish() == 0
    assert bytes(relay.agent.server.log) == COUNTED


@pytest.mark.extended
@pytest.mark.parametrize("seed", range(6))
def test_an_agent_that_is_killed_at_any_moment_delivers_what_it_has_stored(
    relayed: Relayed, seed: int
) -> None:
    chance = random.Random(seed)
    relay = relayed({"code": NUMBERS})
    server = relay.agent.server
    process = relay.agent.start()
    time.sleep(chance.uniform(0.1, 4.0))
    process.kill()
    process.wait()
    for _ in range(2):  # the one that delivers may be killed too
        courier = relay.agent.start("--deliver")
        time.sleep(chance.uniform(0.0, 0.5))
        courier.kill()
        courier.wait()
    assert relay.agent.run("--deliver") == 0
    numbers = [int(line) for line in bytes(server.log).split()]
    assert numbers == list(range(len(numbers)))
    assert server.end is None or server.end["last_seq"] == len(server.frames)


def test_a_ticket_of_another_attempt_is_refused(relayed: Relayed) -> None:
    relay = relayed({"code": "print('no')"})
    relay.agent.server.claimant = "somebody else"
    assert relay.agent.run() == exit_codes.DUPLICATE


def test_a_direct_way_is_preferred(relayed: Relayed) -> None:
    relay = relayed({"code": "print('direct')"})
    relay.write_ticket(url=relay.agent.server.url)
    assert relay.agent.run() == 0
    assert list(relay.mailbox.iterdir()) == []
    assert bytes(relay.agent.server.log) == b"direct\n"


@pytest.mark.extended
def test_an_agent_that_loses_its_direct_way_for_good_uses_the_relay(relayed: Relayed) -> None:
    relay = relayed({"code": NUMBERS}, heartbeat_s=0.5)
    with FailoverProxy() as way:
        way.connect(relay.agent.server.url)
        relay.write_ticket(url=way.url, fallback_after_s=1)
        relay.agent.start()
        relay.agent.server.wait_for(lambda: len(relay.agent.server.log) > 20)
        assert list(relay.mailbox.iterdir()) == []
        way.connect(NOWHERE)
        assert relay.agent.finish() == 0
    assert bytes(relay.agent.server.log) == b"".join(b"%d\n" % number for number in range(400))
    assert json.loads((relay.agent.directory / "link.json").read_text()) == {"direct": False}


@pytest.mark.extended
def test_an_agent_whose_server_is_away_for_a_moment_stays_with_it(relayed: Relayed) -> None:
    relay = relayed({"code": NUMBERS}, heartbeat_s=0.5)
    with FailoverProxy() as way:
        way.connect(relay.agent.server.url)
        relay.write_ticket(url=way.url, fallback_after_s=1)
        relay.agent.start()
        relay.agent.server.wait_for(lambda: len(relay.agent.server.log) > 20)
        relay.stop()
        way.connect(NOWHERE)
        time.sleep(3)
        way.connect(relay.agent.server.url)
        relay.start()  # the agent may have asked through the relay; the server answers both ways again
        assert relay.agent.finish() == 0
    assert bytes(relay.agent.server.log) == b"".join(b"%d\n" % number for number in range(400))
    assert json.loads((relay.agent.directory / "link.json").read_text()) == {"direct": True}


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "foreign"])
def test_an_address_without_an_anygpu_server_is_not_used(relayed: Relayed, play: Play, url: str) -> None:
    relay, foreign = relayed({"code": "print('relayed')"}), play({}).server
    foreign.rejecting = 404
    relay.write_ticket(url=foreign.url if url == "foreign" else url)
    assert relay.agent.run() == 0
    assert bytes(relay.agent.server.log) == b"relayed\n"
    assert {path for _, path in foreign.requests} <= {"/agent/v1/orders"}, "it got no secret"


def test_an_agent_that_starts_again_makes_the_same_choice(relayed: Relayed) -> None:
    relay = relayed({"code": "print('relayed')"})
    assert relay.agent.run() == 0
    assert json.loads((relay.agent.directory / "link.json").read_text()) == {"direct": False}
