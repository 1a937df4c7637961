"""Every backend shows the requests of a launch without sending them, and without any secret."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from anygpu.backends.clouds.canopywave import CanopyWaveOptions, CanopyWaveProvider
from anygpu.backends.clouds.lambda_ import LambdaOptions, LambdaProvider
from anygpu.backends.clouds.paperspace import PaperspaceOptions, PaperspaceProvider
from anygpu.backends.clouds.runpod import RunPodOptions, RunPodProvider
from anygpu.backends.contract import Backend, LaunchRequest, SupportsNativeRequest
from anygpu.backends.local import LocalBackend
from anygpu.backends.options import credential_fields
from anygpu.backends.registry import usable_kinds
from anygpu.backends.ssh.backend import SshBackend
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.options import SshOptions
from anygpu.backends.vm.backend import VmBackend
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

MARKER = "value-of-a-secret"
NAME = f"anygpu-{'0' * 32}-1"
LAUNCH = LaunchRequest(
    name=NAME,
    job_id="00000000-0000-7000-8000-000000000000",
    attempt=1,
    ticket=MARKER,
    agent_url="http://127.0.0.1:9",
    resources=Resources.model_validate({"gpu": 1}),
)
OFFER = Offer(backend="b", name="gpu_1x_a10", region="us-1", gpu_kind="A10", gpu_count=1)
Make = Callable[[Path], Backend]


def refuse(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.method} {request.url} was sent")


def with_credentials(model: type[BaseModel], **options: Any) -> Any:
    return model.model_validate({**dict.fromkeys(credential_fields(model), MARKER), **options})


def cloud(provider: Any, model: type[BaseModel], **options: Any) -> Make:
    def make(folder: Path) -> Backend:
        chosen = with_credentials(model, **options)
        return VmBackend(
            "b",
            provider(chosen, httpx.MockTransport(refuse)),
            chosen,
            secret=MARKER.encode(),
            agent_target=("127.0.0.1", 9),
            pins=HostKeyStore(folder),
            on_change=lambda name: None,
        )

    return make


def ssh(folder: Path) -> Backend:
    options = with_credentials(SshOptions, host="me@gpu1:2222")
    return SshBackend(
        "gpu_1x_a10",
        options,
        secret=MARKER.encode(),
        agent_target=("127.0.0.1", 9),
        pins=HostKeyStore(folder),
    )


def local(folder: Path) -> Backend:
    return LocalBackend(folder / "attempts", gpu_locks=folder / "gpus")


BACKENDS: dict[str, tuple[Make, str]] = {
    "local": (local, "CUDA_VISIBLE_DEVICES="),
    "ssh": (ssh, "ssh -p 2222 me@gpu1 'sh -c"),
    "lambda": (cloud(LambdaProvider, LambdaOptions), "instance-operations/launch"),
    "runpod": (cloud(RunPodProvider, RunPodOptions), "PUBLIC_KEY"),
    "canopywave": (cloud(CanopyWaveProvider, CanopyWaveOptions, project="p"), '"password": "(random)"'),
    "paperspace": (
        cloud(PaperspaceProvider, PaperspaceOptions, template="t"),
        "(the id of the startup script)",
    ),
}
TESTED_ELSEWHERE = {"celery", "ec2", "kubernetes", "ray", "slurm"}  # these need an engine, or a simulated one


@pytest.mark.parametrize("kind", BACKENDS)
async def test_the_requests_name_the_attempt_and_have_no_secret(kind: str, tmp_path: Path) -> None:
    make, part = BACKENDS[kind]
    backend = make(tmp_path)
    assert isinstance(backend, SupportsNativeRequest)
    shown = await backend.native_requests(LAUNCH, OFFER)
    text = "\n".join(f"{each.title}\n{each.text}" for each in shown)
    assert MARKER not in text
    assert NAME in text
    assert part in text
    for each in shown:
        assert each.language in ("json", "sh", "yaml")
        assert each.language != "json" or json.loads(each.text)
    closed = backend.close()  # type: ignore[attr-defined]
    if closed is not None:
        await closed


def test_every_kind_is_tested() -> None:
    kinds = {kind.name for kind in usable_kinds()}
    assert kinds <= {*BACKENDS, *TESTED_ELSEWHERE}
