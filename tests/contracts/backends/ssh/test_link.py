"""A link brings the agent, starts it once, and keeps it in reach, whatever happens to the network in between."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.backends.ssh.connection_rig import ConnectionRig, eventually

from anygpu.agent.host import processes
from anygpu.backends.ssh.bootstrap import build_archive
from anygpu.backends.ssh.link import LinkState


@pytest.mark.parametrize(
    "kind", ["asyncssh", pytest.param("openssh", marks=pytest.mark.needs_program("sshd"))]
)
class TestEverySshServer:
    async def test_a_new_machine_gets_the_agent_and_claims_through_the_tunnel(
        self, rig: ConnectionRig
    ) -> None:
        link = rig.link(notices="aws")
        assert await rig.settled(link) is LinkState.UP
        await eventually(lambda: rig.listener.claims)
        assert rig.states == [LinkState.BOOTSTRAPPING, LinkState.STARTING, LinkState.UP]
        assert [path.name for path in rig.agents.iterdir()] == [f"{build_archive().sha256}.pyz"]
        ticket = json.loads((rig.directory / "ticket.json").read_text())
        assert (ticket["rendezvous"], ticket["notices"]) == ("tunnel.json", "aws")
        assert oct((rig.directory / "ticket.json").stat().st_mode & 0o777) == "0o600"

    async def test_a_restarted_server_reaches_the_same_agent_through_a_new_tunnel(
        self, rig: ConnectionRig
    ) -> None:
        first = rig.link()
        await rig.settled(first)
        await eventually(lambda: (rig.directory / "process.json").exists())
        await first.stop()
        before = (rig.directory / "tunnel.json").read_text()
        assert await rig.settled(rig.link(again=True)) is LinkState.UP
        assert (rig.directory / "tunnel.json").read_text() != before
        assert (len(rig.listener.claims), len(agents(rig))) == (1, 1)

    async def test_the_end_of_the_agent_is_reported_at_once(self, rig: ConnectionRig) -> None:
        link = rig.link()
        await rig.settled(link)
        os.kill(agents(rig)[0], signal.SIGKILL)
        await eventually(lambda: link.state is LinkState.EXITED)
        assert link.detail == "the agent on box has ended with code -9"

    async def test_output_of_the_login_shell_is_ignored(self, rig: ConnectionRig) -> None:
        (rig.box.home / ".bashrc").write_text("echo welcome; echo 'anygpu is here'\n")
        assert await rig.settled(rig.link()) is LinkState.UP


class TestCuts:
    """The network fails in the middle of each step; the next try goes on from what is there."""

    @pytest.fixture
    def work(self) -> dict[str, Any]:
        return {"shell": "while true; do echo tick; sleep 0.1; done"}

    @pytest.mark.parametrize("after", [10, 8_000, 200_000])
    async def test_a_cut_after_so_many_bytes_only_delays(self, rig: ConnectionRig, after: int) -> None:
        rig.wire.bytes_left = after
        link = rig.link(connector=rig.connector(tries=5, bootstrap_s=10))
        assert await rig.settled(link) is LinkState.UP
        assert rig.wire.connections == 2
        await eventually(lambda: len(rig.listener.claims) == 1)
        assert len(agents(rig)) == 1

    async def test_a_partial_agent_is_not_sent_again_and_a_damaged_one_is(self, rig: ConnectionRig) -> None:
        archive = build_archive()
        rig.agents.mkdir(parents=True)
        draft = rig.agents / f"{archive.sha256}.pyz.{rig.name}.part"
        draft.write_bytes(archive.data[:-1_000])
        rig.wire.bytes_left = 60_000
        assert await rig.settled(rig.link()) is LinkState.UP
        assert rig.wire.bytes_left > 0

    async def test_a_damaged_agent_is_never_run(self, rig: ConnectionRig) -> None:
        archive = build_archive()
        rig.agents.mkdir(parents=True)
        draft = rig.agents / f"{archive.sha256}.pyz.{rig.name}.part"
        draft.write_bytes(b"\0" * 100_000)
        assert await rig.settled(rig.link()) is LinkState.UP
        assert (rig.agents / f"{archive.sha256}.pyz").read_bytes() == archive.data
        assert rig.states.count(LinkState.BOOTSTRAPPING) == 2

    async def test_a_closed_laptop_comes_back_to_the_same_agent_past_the_stale_tunnel(
        self, rig: ConnectionRig
    ) -> None:
        link = rig.link()
        await rig.settled(link)
        await eventually(lambda: b"tick" in rig.listener.output)
        rig.wire.freeze()
        await eventually(lambda: rig.states[-1] is LinkState.BROKEN)
        await eventually(lambda: link.state is LinkState.UP)
        reported = len(rig.listener.output)
        await eventually(lambda: len(rig.listener.output) > reported + 100)
        assert (len(rig.listener.claims), len(agents(rig))) == (1, 1)

    async def test_a_link_that_was_up_retries_forever(self, rig: ConnectionRig) -> None:
        link = rig.link()
        await rig.settled(link)
        rig.wire.take_down()
        await eventually(lambda: link.state is LinkState.BROKEN)
        seen = rig.wire.refused
        await eventually(lambda: rig.wire.refused > seen + 4)
        assert (link.state, link.failure) == (LinkState.BROKEN, None)


class TestEnds:
    @pytest.fixture
    def work(self) -> dict[str, Any]:
        return {"shell": "true"}

    async def test_an_agent_that_has_finished_is_not_started_again(self, rig: ConnectionRig) -> None:
        link = rig.link()
        await rig.settled(link)
        await eventually(lambda: link.state is LinkState.EXITED)
        assert link.detail == "the agent on box has ended with code 0"
        again = rig.link()
        assert await rig.settled(again) is LinkState.EXITED
        assert (len(rig.listener.claims), len(rig.listener.ends)) == (1, 1)


def agents(rig: ConnectionRig) -> list[int]:
    """The agent is the one that leads the session it was started in."""
    return [pid for pid in processes.processes_by_attempt().get(rig.name, []) if b"agent" in command(pid)]


def command(pid: int) -> bytes:
    """Empty for one that has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
