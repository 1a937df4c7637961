"""Machines with GPUs of several models: one offer for each model, and jobs get GPUs of one model only."""

import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from anygpu.agent.host import processes
from anygpu.backends.contract import Backend, LaunchRequest
from anygpu.backends.local import LocalBackend
from anygpu.backends.ssh.backend import SshBackend
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.options import SshOptions
from anygpu.errors import NoCapacity
from anygpu.plan.offers.fit import unfit_reason
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.sections import Gpu, Resources
from anygpu.testing.contracts.backend import new_launch, wait_until
from anygpu.testing.servers.agent_listener import AgentListener
from anygpu.testing.servers.ssh_host import BEST_SERVER, open_ssh_host

NVIDIA_SMI = """#!/bin/sh
echo 'GPU-a1, NVIDIA A100-SXM4-40GB, 40960, 550.54'
echo 'GPU-r1, NVIDIA GeForce RTX 4090, 24564, 550.54'
echo 'GPU-a2, NVIDIA A100-SXM4-40GB, 40960, 550.54'
"""


class MixedMachine:
    def __init__(self, backend: Backend, listener: AgentListener, name: str) -> None:
        self.backend, self.listener, self.name = backend, listener, name
        self.agent_url = listener.url

    def launch_request(self, number: int, count: int) -> LaunchRequest:
        return replace(new_launch(self, number), resources=Resources(gpu=Gpu(count=count)))  # type: ignore[arg-type]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(NVIDIA_SMI)
    (tools / "nvidia-smi").chmod(0o755)
    return tools


@pytest.fixture(params=["local", "ssh"])
async def machine(
    request: pytest.FixtureRequest, tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MixedMachine]:
    with AgentListener({"shell": "echo visible: $CUDA_VISIBLE_DEVICES; sleep 1000"}) as listener:
        opened = open_local if request.param == "local" else open_ssh
        async for made in opened(tmp_path, tools, listener, monkeypatch):
            yield made
            for number in (1, 2, 3):
                processes.kill_attempt(made.launch_request(number, 1).name)


async def open_local(
    root: Path, tools: Path, listener: AgentListener, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MixedMachine]:
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    backend = LocalBackend(root / "attempts", gpu_locks=root / "gpus", cpus=2)
    yield MixedMachine(backend, listener, os.uname().nodename)
    backend.close()


async def open_ssh(
    root: Path, tools: Path, listener: AgentListener, _: pytest.MonkeyPatch
) -> AsyncIterator[MixedMachine]:
    path = str(tools), str(Path(sys.executable).parent), "/usr/bin", "/bin"
    async with open_ssh_host(BEST_SERVER, root / "home", path=path) as host:
        backend = SshBackend(
            "lab",
            SshOptions(
                host=f"{host.user}@127.0.0.1:{host.port}", private_key=host.key.private_openssh, cpus=2
            ),
            secret=b"secret",
            agent_target=("127.0.0.1", int(listener.url.rpartition(":")[2])),
            pins=HostKeyStore(root / "pins"),
        )
        yield MixedMachine(backend, listener, "lab")
        await backend.close()


async def test_each_gpu_model_is_an_offer_with_its_own_free_gpus(machine: MixedMachine) -> None:
    offers = await machine.backend.offers(Resources(gpu=Gpu()))
    assert [(each.name, each.gpu_kind, each.gpu_count, each.free) for each in offers] == [
        (machine.name, "NVIDIA A100-SXM4-40GB", 2, 2),
        (f"{machine.name}/RTX-4090", "NVIDIA GeForce RTX 4090", 1, 1),
    ]
    assert len({each.key for each in offers}) == 2
    assert [each.name for each in await machine.backend.offers(Resources())] == [machine.name]


async def test_a_job_gets_gpus_of_the_model_of_its_offer_only(machine: MixedMachine) -> None:
    a100, rtx4090 = await machine.backend.offers(Resources(gpu=Gpu()))
    handle = await machine.backend.launch(machine.launch_request(1, 1), rtx4090)
    await wait_until(lambda: b"visible: GPU-r1\n" in machine.listener.output)
    second = await machine.backend.launch(machine.launch_request(2, 2), a100)
    await wait_until(lambda: b"visible: GPU-a1,GPU-a2\n" in machine.listener.output)
    with pytest.raises(NoCapacity):
        await machine.backend.launch(machine.launch_request(3, 1), rtx4090)
    for each in (handle, second):
        await machine.backend.terminate(each)


async def test_more_gpus_than_one_model_has_are_rejected_with_the_reason(machine: MixedMachine) -> None:
    resources = Resources(gpu=Gpu(count=3))
    spec = JobSpec(command="true", resources=resources)
    reasons = [unfit_reason(spec, offer) for offer in await machine.backend.offers(resources)]
    assert reasons == ["has 2 GPUs, the job needs 3", "has 1 GPU, the job needs 3"]
