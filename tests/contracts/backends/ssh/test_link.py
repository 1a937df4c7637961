"""A link brings the agent, starts it once, and keeps it in reach, whatever happens to the network in between."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.backends.ssh.connection_rig import Line, eventually

from anygpu.agent.host import processes
from anygpu.backends.ssh.bootstrap import build_archive
from anygpu.backends.ssh.link import LinkState


@pytest.mark.parametrize(
    "kind", ["asyncssh", pytest.param("openssh", marks=pytest.mark.needs_program("sshd"))]
)
class TestEverySshServer:
    async def test_a_new_machine_gets_the_agent_and_claims_through_the_tunnel(self, line: Line) -> None:
        link = line.link(notices="aws")
        assert await line.settled(link) is LinkState.UP
        await eventually(lambda: line.listener.claims)
        assert line.states == [LinkState.BOOTSTRAPPING, LinkState.STARTING, LinkState.UP]
        assert [path.name for path in line.agents.iterdir()] == [f"{build_archive().sha256}.pyz"]
        ticket = json.loads((line.directory / "ticket.json").read_text())
        assert (ticket["rendezvous"], ticket["notices"]) == ("tunnel.json", "aws")
        assert oct((line.directory / "ticket.json").stat().st_mode & 0o777) == "0o600"

    async def test_a_restarted_server_reaches_the_same_agent_through_a_new_tunnel(self, line: Line) -> None:
        first = line.link()
        await line.settled(first)
        await eventually(lambda: (line.directory / "process.json").exists())
        await first.stop()
        before = (line.directory / "tunnel.json").read_text()
        assert await line.settled(line.link(again=True)) is LinkState.UP
        assert (line.directory / "tunnel.json").read_text() != before
        assert (len(line.listener.claims), len(agents(line))) == (1, 1)

    async def test_the_end_of_the_agent_is_reported_at_once(self, line: Line) -> None:
        link = line.link()
        await line.settled(link)
        os.kill(agents(line)[0], signal.SIGKILL)
        await eventually(lambda: link.state is LinkState.EXITED, within_s=2)
        assert link.detail == "the agent on box has ended with code -9"

    async def test_output_of_the_login_shell_is_ignored(self, line: Line) -> None:
        (line.box.home / ".bashrc").write_text("echo welcome; echo 'anygpu is here'\n")
        assert await line.settled(line.link()) is LinkState.UP


class TestCuts:
    """The network fails in the middle of each step; the next try goes on from what is there."""

    @pytest.fixture
    def work(self) -> dict[str, Any]:
        return {"shell": "while true; do echo tick; sleep 0.1; done"}

    @pytest.mark.parametrize("after", [10, 8_000, 200_000])
    async def test_a_cut_after_so_many_bytes_only_delays(self, line: Line, after: int) -> None:
        line.wire.bytes_left = after
        link = line.link(dialer=line.dialer(tries=5, bootstrap_s=10))
        assert await line.settled(link) is LinkState.UP
        assert line.wire.connections == 2
        await eventually(lambda: len(line.listener.claims) == 1)
        assert len(agents(line)) == 1

    async def test_a_partial_agent_is_not_sent_again_and_a_damaged_one_is(self, line: Line) -> None:
        archive = build_archive()
        line.agents.mkdir(parents=True)
        draft = line.agents / f"{archive.sha256}.pyz.{line.name}.part"
        draft.write_bytes(archive.data[:-1_000])
        line.wire.bytes_left = 60_000
        assert await line.settled(line.link()) is LinkState.UP
        assert line.wire.bytes_left > 0

    async def test_a_damaged_agent_is_never_run(self, line: Line) -> None:
        archive = build_archive()
        line.agents.mkdir(parents=True)
        draft = line.agents / f"{archive.sha256}.pyz.{line.name}.part"
        draft.write_bytes(b"\0" * 100_000)
        assert await line.settled(line.link()) is LinkState.UP
        assert (line.agents / f"{archive.sha256}.pyz").read_bytes() == archive.data
        assert line.states.count(LinkState.BOOTSTRAPPING) == 2

    async def test_a_closed_laptop_comes_back_to_the_same_agent_past_the_stale_tunnel(
        self, line: Line
    ) -> None:
        link = line.link()
        await line.settled(link)
        await eventually(lambda: b"tick" in line.listener.output)
        line.wire.freeze()
        await eventually(lambda: line.states[-1] is LinkState.BROKEN, within_s=5)
        await eventually(lambda: link.state is LinkState.UP)
        reported = len(line.listener.output)
        await eventually(lambda: len(line.listener.output) > reported + 100, within_s=3)
        assert (len(line.listener.claims), len(agents(line))) == (1, 1)

    async def test_a_link_that_was_up_retries_forever(self, line: Line) -> None:
        link = line.link()
        await line.settled(link)
        line.wire.take_down()
        await eventually(lambda: link.state is LinkState.BROKEN)
        seen = line.wire.refused
        await eventually(lambda: line.wire.refused > seen + 4)
        assert (link.state, link.failure) == (LinkState.BROKEN, None)


class TestEnds:
    @pytest.fixture
    def work(self) -> dict[str, Any]:
        return {"shell": "true"}

    async def test_an_agent_that_has_finished_is_not_started_again(self, line: Line) -> None:
        link = line.link()
        await line.settled(link)
        await eventually(lambda: link.state is LinkState.EXITED)
        assert link.detail == "the agent on box has ended with code 0"
        again = line.link()
        assert await line.settled(again) is LinkState.EXITED
        assert (len(line.listener.claims), len(line.listener.ends)) == (1, 1)


def agents(line: Line) -> list[int]:
    """The agent is the one that leads the session it was started in."""
    return [pid for pid in processes.processes_by_attempt().get(line.name, []) if b"agent" in command(pid)]


def command(pid: int) -> bytes:
    """Empty for one that has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
