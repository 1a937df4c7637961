"""The sshd processes of simulated machines."""

import asyncio
import signal
import subprocess

import pytest

from anygpu.cloudsim.machine.openssh import _end_sshd

STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1; done"


async def test_an_sshd_that_does_not_end_is_killed_when_its_machine_is_removed() -> None:
    command = ["sh", "-c", STUBBORN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        ending = asyncio.create_task(_end_sshd(child, None))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert child.returncode == -signal.SIGKILL
