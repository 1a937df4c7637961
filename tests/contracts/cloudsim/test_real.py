"""Real machines of the simulator, with the built-in SSH server and with OpenSSH."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import httpx
import pytest

from anygpu.cloudsim import CloudSim, CloudTiming, SimOptions
from anygpu.cloudsim.apis.ec2 import VENDOR
from anygpu.cloudsim.instance import Instance, InstanceOrder, InstanceState
from anygpu.cloudsim.machine.processes import find_processes
from anygpu.testing.servers.ssh_host import SSHD

SERVERS = [
    pytest.param("", id="asyncssh"),
    pytest.param(str(SSHD), id="openssh", marks=pytest.mark.needs_program("sshd")),
]
MINE = asyncssh.generate_private_key("ssh-ed25519")
USER = os.environ.get("USER", "root")  # OpenSSH accepts only users of this computer


@pytest.fixture(params=SERVERS)
async def sim(request: pytest.FixtureRequest) -> AsyncIterator[CloudSim]:
    options = SimOptions(timing=CloudTiming(boot_s=0.05, ending_s=0.05), sshd=request.param)
    async with CloudSim(options) as running:
        yield running


@pytest.fixture
async def built_in() -> AsyncIterator[CloudSim]:
    async with CloudSim(SimOptions(timing=CloudTiming(boot_s=0.05, ending_s=0.05))) as running:
        yield running


async def rented(sim: CloudSim, script: str = "", notices: str = "aws", **more: object) -> Instance:
    order = InstanceOrder(
        vendor=replace(VENDOR, metadata_format=notices),
        type="g5.xlarge",
        region="us-west-2",
        spot=True,
        on_halt="end",
        user_data=script.encode(),
        public_keys=(MINE.export_public_key().decode(),),
    )
    instance = sim.cloud.launch(replace(order, **more))  # type: ignore[arg-type]
    await until(lambda: instance.booted_at_ms is not None)
    return instance


async def until(holds: object, within_s: float = 60) -> None:
    assert callable(holds)
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.01)


def has_ended(instance: Instance) -> bool:
    return instance.state is InstanceState.ENDED


def connected(instance: Instance, key: asyncssh.SSHKey = MINE) -> Any:
    hosts = asyncssh.import_known_hosts(f"[{instance.address}]:2222 {instance.host_key}\n")
    return asyncssh.connect(
        instance.address,
        2222,
        username=USER,
        client_keys=[key],
        known_hosts=hosts,
        config=None,
        agent_path=None,
    )


def processes(sim: CloudSim, instance: Instance) -> list[int]:
    place = sim.directory / "machines" / instance.id
    return find_processes([place]).get(place, [])


async def test_commands_run_in_the_machines_home_and_return_their_exit_status(sim: CloudSim) -> None:
    instance = await rented(sim)
    async with connected(instance) as shell:
        home = (await shell.run("pwd; echo $HOME", check=True)).stdout
        assert home == f"{sim.directory}/machines/{instance.id}/home\n" * 2
        assert (await shell.run("cat", input="in")).stdout == "in"
        assert (await shell.run("echo bad >&2; exit 7")).exit_status == 7
        assert (await shell.run("kill -9 $$")).exit_signal[0] == "KILL"


async def test_only_the_ordered_key_may_log_in(sim: CloudSim) -> None:
    instance = await rented(sim)
    with pytest.raises(asyncssh.PermissionDenied):
        await connected(instance, asyncssh.generate_private_key("ssh-ed25519"))


async def test_no_credential_of_the_simulators_environment_is_on_the_machine(sim: CloudSim) -> None:
    async with connected(await rented(sim)) as shell:
        assert "AWS_SECRET_ACCESS_KEY" not in str((await shell.run("env")).stdout)


async def test_files_are_sent_and_listed_from_the_home(sim: CloudSim) -> None:
    instance = await rented(sim)
    async with connected(instance) as shell, shell.start_sftp_client() as files:
        async with files.open("a/b" if await files.exists("a") else "b", "wb") as remote:
            await remote.write(b"x" * 100_000)
        assert (await files.stat("b")).size == 100_000
        assert (await shell.run("wc -c < b")).stdout.split() == ["100000"]


async def test_a_tunnel_back_gets_a_port_of_its_own_and_carries_http(sim: CloudSim) -> None:
    async with connected(await rented(sim)) as shell:
        for asked in ("127.0.0.1", ""):
            back = await shell.forward_remote_port(asked, 0, "127.0.0.1", sim.port)
            url = f"http://127.0.0.1:{back.get_port()}/sim/v1/state"
            seen = await shell.run(
                f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").status)'"
            )
            assert seen.stdout == "200\n"


async def test_a_session_can_have_a_terminal(sim: CloudSim) -> None:
    async with connected(await rented(sim)) as shell:
        done = await shell.run("tty; stty size; exit 3", term_type="xterm", term_size=(80, 24))
    assert "/dev/" in str(done.stdout)
    assert "24 80" in str(done.stdout)
    assert done.exit_status == 3


async def test_preemption_kills_all_processes_and_closes_connections(sim: CloudSim) -> None:
    instance = await rented(sim)
    async with connected(instance) as shell:
        quiet = "> /dev/null 2>&1 < /dev/null"
        await shell.run(
            f"setsid -f sleep 600 {quiet}; cd; env -i setsid -f /bin/sleep 601 {quiet}; nohup sleep 602 {quiet} &"
        )
        running = asyncio.create_task(shell.run("sleep 603"))
        await until(lambda: len(processes(sim, instance)) >= 4)
        sim.preempt(instance.id, notice_s=0)
        async with asyncio.timeout(60):
            await shell.wait_closed()
        with suppress(asyncssh.Error):
            await running
    await until(lambda: instance.state is InstanceState.ENDED)
    assert processes(sim, instance) == []
    assert not (sim.directory / "machines" / instance.id).exists()
    assert instance.host_key in instance.console
    with pytest.raises(OSError):
        await connected(instance)


async def test_a_cut_network_holds_connections_and_kills_nothing(sim: CloudSim) -> None:
    instance = await rented(sim)
    async with connected(instance) as shell:
        ticking = await shell.create_process("while sleep 0.05; do echo tick; done")
        await ticking.stdout.readline()
        sim.disconnect(instance.id)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                while True:
                    await ticking.stdout.readline()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ticking.stdout.readline()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await connected(instance)
        sim.reconnect(instance.id)
        assert await ticking.stdout.readline() == "tick\n"


async def test_a_machine_that_ends_with_a_cut_network_sends_nothing(sim: CloudSim) -> None:
    instance = await rented(sim)
    shell = await connected(instance)
    sim.disconnect(instance.id)
    sim.cloud.terminate(instance)
    await until(lambda: instance.state is InstanceState.ENDED)
    assert not shell.is_closed()
    sim.reconnect(instance.id)
    async with asyncio.timeout(60):
        await shell.wait_closed()


async def test_an_ssh_port_can_be_closed_for_a_while(sim: CloudSim) -> None:
    instance = await rented(sim)
    await sim.refuse_ssh(instance.id, for_s=3)
    with pytest.raises(ConnectionRefusedError):
        await connected(instance)
    async with asyncio.timeout(60):
        while True:
            with suppress(ConnectionRefusedError):
                async with connected(instance) as shell:
                    assert (await shell.run("echo in")).stdout == "in\n"
                    return
            await asyncio.sleep(0.1)


async def test_output_continues_after_the_other_output_was_closed(sim: CloudSim) -> None:
    instance = await rented(sim)
    async with connected(instance) as shell:
        for closed, other in ((1, 2), (2, 1)):
            said = await shell.run(f"exec {closed}>&-; sleep 0.1; echo late >&{other}; exit 3")
            assert (said.exit_status, f"{said.stdout}{said.stderr}") == (3, "late\n")


async def test_writes_fail_on_a_full_disk_until_the_limit_is_removed(sim: CloudSim) -> None:
    instance = await rented(sim)
    async with connected(instance) as shell, shell.start_sftp_client() as files:
        sim.fill_disk(instance.id, 1024)
        with pytest.raises(asyncssh.SFTPError):
            async with files.open("big", "wb") as remote:
                await remote.write(b"x" * 10_000)
        full = await shell.run("head -c 10000 /dev/zero > big")
        assert (full.exit_status, "File too large" in str(full.stderr)) == (1, True)
        sim.fill_disk(instance.id, None)
        await shell.run("head -c 10000 /dev/zero > big", check=True)


async def test_user_data_runs_at_boot_and_its_output_is_on_the_console(built_in: CloudSim) -> None:
    instance = await rented(built_in, "#!/bin/sh\necho from the script\ntouch made\n")
    await until(lambda: "from the script" in instance.console)
    assert instance.host_key in instance.console
    async with connected(instance) as shell:
        await shell.run("until test -f made; do sleep 0.01; done", check=True)


@pytest.mark.parametrize(
    "command", ["shutdown -h +90", "sudo shutdown -P +90", "sudo -n sh -c 'shutdown +90'"]
)
async def test_a_scheduled_shutdown_ends_the_machine(built_in: CloudSim, command: str) -> None:
    instance = await rented(built_in, f"#!/bin/sh\n{command}\n")
    await until(lambda: instance.shutdown_at_ms is not None)
    built_in.advance(89 * 60)
    assert instance.state is InstanceState.RUNNING
    built_in.advance(60)
    await until(lambda: has_ended(instance))
    [entry] = built_in.billing_entries()
    assert (entry.cause, entry.billed_s // 60) == ("halt", 90)


async def test_a_shutdown_can_be_cancelled_or_immediate(built_in: CloudSim) -> None:
    instance = await rented(built_in, "#!/bin/sh\nshutdown +1; shutdown -c; echo done\n")
    await until(lambda: "done" in instance.console)
    built_in.advance(120)
    assert instance.state is InstanceState.RUNNING
    async with connected(instance) as shell:
        with suppress(asyncssh.Error):
            await shell.run("poweroff")
    await until(lambda: has_ended(instance))


def metadata(instance: Instance) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"http://{instance.internal_ip}:1338", trust_env=False)


async def test_the_aws_notice_needs_a_token_and_appears_on_preemption(
    built_in: CloudSim,
) -> None:
    instance = await rented(built_in)
    path = "/latest/meta-data/spot/instance-action"
    async with metadata(instance) as ask:
        assert (await ask.get(path)).status_code == 401
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        header = {"X-aws-ec2-metadata-token": (await ask.put("/latest/api/token", headers=ttl)).text}
        assert (await ask.get("/latest/meta-data/instance-id", headers=header)).text == instance.id
        assert (await ask.get(path, headers=header)).status_code == 404
        built_in.preempt(instance.id, notice_s=120)
        notice = (await ask.get(path, headers=header)).json()
        assert (notice["action"], len(notice["time"])) == ("terminate", 20)
        recommended = await ask.get("/latest/meta-data/events/recommendations/rebalance", headers=header)
        assert "noticeTime" in recommended.json()


async def test_the_google_notice_can_be_waited_for(built_in: CloudSim) -> None:
    instance = await rented(built_in, notices="gcp")
    path, header = "/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"}
    async with metadata(instance) as ask:
        assert (await ask.get(path)).status_code == 403
        now = await ask.get(path, headers=header)
        assert now.text == "FALSE"
        waiting = asyncio.create_task(
            ask.get(f"{path}?wait_for_change=true&last_etag={now.headers['etag']}", headers=header)
        )
        await asyncio.sleep(0.1)
        assert not waiting.done()
        built_in.preempt(instance.id, notice_s=30)
        assert (await waiting).text == "TRUE"


async def test_the_azure_notice_is_a_scheduled_event(built_in: CloudSim) -> None:
    instance = await rented(built_in, notices="azure")
    path, header = "/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"}
    async with metadata(instance) as ask:
        assert (await ask.get(path)).status_code == 400
        assert (await ask.get(path, headers=header)).json()["Events"] == []
        built_in.preempt(instance.id, notice_s=30)
        [event] = (await ask.get(path, headers=header)).json()["Events"]
        assert (event["EventType"], event["Resources"]) == ("Preempt", [instance.id])


async def test_stopping_the_simulator_leaves_no_process_and_no_directory() -> None:
    async with CloudSim(SimOptions(timing=CloudTiming(boot_s=0.05))) as sim:
        instance = await rented(sim, "#!/bin/sh\nsetsid -f sleep 600\nsleep 600\n")
        await until(lambda: len(processes(sim, instance)) >= 2)
        place = sim.directory
    assert find_processes([place / "machines" / instance.id]) == {}
    assert not Path(place).exists()


async def test_two_simulators_never_share_an_address_or_a_process() -> None:
    options = SimOptions(timing=CloudTiming(boot_s=0.05), seed=1)
    async with CloudSim(options) as one, CloudSim(options) as other:
        mine, theirs = (
            await rented(one, "#!/bin/sh\nsleep 600\n"),
            await rented(other, "#!/bin/sh\nsleep 600\n"),
        )
        assert mine.internal_ip != theirs.internal_ip
        await until(lambda: processes(one, mine) and processes(other, theirs))
        one.cloud.terminate(mine)
        await until(lambda: mine.state is InstanceState.ENDED)
        assert processes(other, theirs)
