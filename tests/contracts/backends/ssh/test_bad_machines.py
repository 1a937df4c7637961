"""What can be wrong with a machine: each has its own error, which names the step, the machine and what to do."""

import asyncio
from pathlib import Path

import pytest
from tests.contracts.backends.ssh.connection_rig import ConnectionRig, eventually

from anygpu.backends.ssh.bootstrap import build_archive
from anygpu.backends.ssh.keys import attempt_key
from anygpu.backends.ssh.link import LinkState, SshLink
from anygpu.events.facts import Blame
from anygpu.testing.servers.ssh_host import free_port


async def failure_of(rig: ConnectionRig, link: SshLink) -> tuple[str, str]:
    assert await rig.settled(link) is LinkState.FAILED
    assert link.failure is not None
    assert link.failure.blame is Blame.LAUNCH
    assert "box" in link.failure.message
    return link.failure.code, link.failure.message


async def test_a_wrong_key_is_retried_while_a_machine_boots_and_then_reported(rig: ConnectionRig) -> None:
    other = attempt_key(b"other", "key").private_openssh
    code, message = await failure_of(rig, rig.link(login={"private_key": other}))
    assert code == "ssh_refused"
    assert "authorized_keys" in message
    assert rig.wire.connections >= 3


async def test_a_wrong_key_for_an_own_host_is_reported_at_once(rig: ConnectionRig) -> None:
    other = attempt_key(b"other", "key").private_openssh
    code, _ = await failure_of(rig, rig.link(login={"private_key": other}, booting=False))
    assert (code, rig.wire.connections) == ("ssh_refused", 1)


async def test_an_unreadable_key_is_reported(rig: ConnectionRig) -> None:
    code, message = await failure_of(rig, rig.link(login={"private_key": "nonsense"}, booting=False))
    assert code == "ssh_refused"
    assert "the private key for the SSH login cannot be used" in message


async def test_a_machine_that_never_answers_is_given_up_after_the_tries(rig: ConnectionRig) -> None:
    code, message = await failure_of(rig, rig.link(login={"port": free_port()}))
    assert code == "ssh_unreachable"
    assert "does not answer over SSH" in message


async def test_an_attempt_of_an_earlier_server_is_waited_for_as_long_as_its_lease(rig: ConnectionRig) -> None:
    rig.wire.take_down()
    link = rig.link(patience_s=1.5)
    await asyncio.sleep(1)
    assert (link.state, link.failure) == (LinkState.CONNECTING, None)
    code, _ = await failure_of(rig, link)
    assert code == "ssh_unreachable"


async def test_a_booting_machine_is_reached_soon_after_its_ssh_server_starts(rig: ConnectionRig) -> None:
    rig.wire.take_down()
    link = rig.link(connector=rig.connector(tries=5, retry_interval_s=2))
    await asyncio.sleep(0.5)
    assert link.state is LinkState.CONNECTING
    rig.wire.bring_up()
    assert await rig.settled(link) is LinkState.UP


async def test_a_host_key_other_than_the_providers_is_never_accepted(rig: ConnectionRig) -> None:
    expected = attempt_key(b"the provider says", "host").public_openssh
    code, message = await failure_of(rig, rig.link(login={"host_keys": (expected,)}))
    assert code == "host_key_changed"
    assert "another machine may be answering" in message
    assert message.count("SHA256:") == 2
    assert rig.wire.connections == 1


async def test_a_host_key_known_from_the_provider_is_accepted(rig: ConnectionRig) -> None:
    known = rig.box.host_key.public_openssh
    assert await rig.settled(rig.link(login={"host_keys": (known,)})) is LinkState.UP


async def test_a_changed_host_key_of_a_running_attempt_breaks_the_link_only(
    rig: ConnectionRig,
) -> None:
    link = rig.link()
    await rig.settled(link)
    await rig.box.close()
    rig.box.host_key = attempt_key(b"another machine", "host")
    await rig.box.open()
    rig.wire.cut()
    await eventually(lambda: "has the SSH host key" in link.detail)
    assert (link.state, link.failure) == (LinkState.BROKEN, None)


async def test_a_machine_without_python_fails_with_instructions(rig: ConnectionRig) -> None:
    code, message = await failure_of(rig, rig.link(python="no-such-python"))
    assert code == "no_python"
    assert "found none" in message
    assert "apt install python3" in message


async def test_a_python_that_is_too_old_is_named_in_the_error(rig: ConnectionRig) -> None:
    old = rig.box.home / "python3.6"
    old.write_text("#!/bin/sh\nexit 97\n")
    old.chmod(0o755)
    code, message = await failure_of(rig, rig.link(python=str(old)))
    assert code == "no_python"
    assert f"only {old}, which is older" in message


async def test_a_full_disk_during_the_upload_is_reported(rig: ConnectionRig) -> None:
    rig.agents.mkdir(parents=True)
    (rig.agents / f"{build_archive().sha256}.pyz.{rig.name}.part").symlink_to("/dev/full")
    code, message = await failure_of(rig, rig.link())
    assert code == "disk_full"
    assert "No space left on device" in message
    assert "Free some space in the home directory on box" in message


async def test_a_read_only_home_is_reported_after_the_tries(rig: ConnectionRig) -> None:
    (rig.box.home / ".anygpu").write_text("a file where a directory should be")
    code, message = await failure_of(rig, rig.link())
    assert code == "bootstrap_failed"
    assert "the agent could not be installed" in message


async def test_a_login_shell_that_runs_nothing_is_quoted(rig: ConnectionRig) -> None:
    code, message = await failure_of(rig, rig.link(python="echo"))
    assert code == "bootstrap_failed"
    assert "ended without an answer: -I -S -c import sys" in message


async def test_a_machine_that_does_not_know_the_attempt_reports_it(rig: ConnectionRig) -> None:
    code, _ = await failure_of(rig, rig.link(again=True))
    assert code == "attempt_unknown"


class TestNoTunnel:
    @pytest.fixture
    def kind(self) -> str:
        return "asyncssh"

    async def test_a_refused_tunnel_names_the_setting_to_change(self, rig: ConnectionRig) -> None:
        rig.box.allows_forwarding = False
        code, message = await failure_of(rig, rig.link())
        assert code == "tunnel_refused"
        assert "AllowTcpForwarding" in message


async def test_host_keys_are_pinned_by_attempt_so_that_addresses_can_be_reused(
    rig: ConnectionRig, tmp_path: Path
) -> None:
    connector = rig.connector()
    for name in ("first", "second"):
        rig.box.host_key = attempt_key(name.encode(), "host")
        await rig.box.close()
        await rig.box.open()
        connection = await connector.connect(rig.box.login(port=rig.wire.port, pin=name))
        connection.abort()
    assert connector.pins.get("first") != connector.pins.get("second")
