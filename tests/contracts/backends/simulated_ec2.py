"""EC2 as the simulator plays it, and options that reach it."""

from typing import Any

from anygpu.backends.clouds.ec2 import adapter
from anygpu.cloudsim import CloudSim, CloudTiming, SimOptions

QUICK = SimOptions(timing=CloudTiming(boot_s=0.2, ending_s=0.1))


def options(sim: CloudSim, **told: Any) -> adapter.Ec2Options:
    known: dict[str, Any] = {
        "endpoint": sim.url("ec2"),
        "ssh_port": sim.options.ssh_port,
        "regions": ("us-west-2",),
        "access_key_id": "AKIASIMULATED0000000",
        "secret_access_key": "simulated",
    }
    return adapter.Ec2Options(**{**known, **told})
