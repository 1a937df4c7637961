"""A preemption notice on a simulated spot machine, with real SSH and the agent as it is shipped."""

import time
from pathlib import Path

from tests.contracts.backends import simulated_ec2
from tests.contracts.backends.vm.test_vm_on_ec2 import Ec2Place

from anygpu.cloudsim import CloudSim
from anygpu.testing.contracts.backend import wait_until
from anygpu.testing.servers.agent_listener import AgentListener

SAVING = """
import anygpu, time
print("begun", flush=True)
while not anygpu.should_stop():
    time.sleep(0.02)
print("saved")
"""


async def test_should_stop_becomes_true_when_the_notice_comes(tmp_path: Path) -> None:
    with AgentListener({"code": SAVING}) as listener:
        async with CloudSim(simulated_ec2.QUICK) as sim:
            place = Ec2Place(sim, listener, tmp_path)
            await place.open()
            handle = await place.training(spot=True)
            await wait_until(lambda: b"begun" in listener.output)
            told_at = time.monotonic()
            sim.preempt(handle.native["id"], notice_s=60)
            await wait_until(lambda: bool(listener.ends))
            took_s = time.monotonic() - told_at
            await place.close()
    assert b"saved" in listener.output
    assert (listener.ends[0]["outcome"], listener.ends[0]["exit_code"]) == ("stopped", 0)
    assert "AWS spot/instance-action says" in listener.ends[0]["message"]
    assert took_s < 30  # not when the time is over, in a minute
