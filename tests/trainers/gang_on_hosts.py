"""Run jobs with torchrun and gloo on several loopback hosts, and print what they computed as JSON.

The environment of the tests with torch has no server. So this file is run with the Python of the server:
`python -m tests.trainers.gang_on_hosts PYTHON FOLDER`, where PYTHON is one that has torch.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.machines.cloud import Server
from tests.acceptance.machines.host_group import HostGroup, open_host_group
from tests.trainers.ranks_job import FOUR_PROCESSES, ONE_PROCESS, TWO_PROCESSES, has_trained, ranks_job

LIMIT_S = 240  # six processes import torch for each start, on two cores beside another test


async def main(python: str, folder: Path) -> None:
    server = Server(folder, "", ANYGPU_CONTROL__SAFETY_NET_S="0.5", ANYGPU_LOCAL__ENABLED="true")
    try:
        async with open_host_group(server, folder, 2, cpus=2, limit_s=LIMIT_S) as lab:
            print(json.dumps(await _run_all(lab, python)), flush=True)
    finally:
        server.stop()


async def _run_all(lab: HostGroup, python: str) -> dict[str, Any]:
    alone = await _submit(lab, python, "alone", **ONE_PROCESS)
    await lab.wait_ended(alone, "completed")
    here = await _submit(lab, python, "here", placement={"allowed": ["local"]}, **TWO_PROCESSES)
    await lab.wait_ended(here, "completed")
    together = await _submit(lab, python, "together", **FOUR_PROCESSES)
    await lab.wait_ended(together, "completed")
    killed = await _submit(lab, python, "killed", waits=True, **FOUR_PROCESSES)
    folder = lab.folder / "killed"
    await lab.wait_until(killed, has_trained)
    os.kill(await lab.pid_of(1, 3, folder), signal.SIGKILL)
    await lab.pid_of(2, 3, folder)
    (folder / "go").touch()
    job = await lab.wait_ended(killed, "completed")
    return {
        "alone": await lab.result(alone),
        "here": await lab.result(here),
        "together": await lab.result(together),
        "killed": await lab.result(killed),
        "killed_job": job,
    }


async def _submit(lab: HostGroup, python: str, name: str, *, waits: bool = False, **fields: Any) -> str:
    return await lab.submit(1, **ranks_job(lab.folder, name, python, waits=waits, **fields))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
