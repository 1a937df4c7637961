"""The simulator, in this process or started by its command (for boto3 scripts)."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.contracts.cloudsim.ec2_client import GPU_IMAGE, HTTP, MINE, SimEndpoints

from anygpu.cloudsim import CloudSim, CloudTiming, SimOptions


@pytest.fixture
async def sim() -> AsyncIterator[CloudSim]:
    async with CloudSim(SimOptions(timing=CloudTiming(boot_s=0.1, ending_s=0.1))) as running:
        yield running


@pytest.fixture(scope="module")
def aws() -> Iterator[SimEndpoints]:
    command = [sys.executable, "-m", "anygpu.cli.main", "cloud-sim", "--json", "--boot", "200ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    yield SimEndpoints(told["endpoints"]["ec2"], told["control"])
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    process.stdout.close()


@pytest.fixture
def nothing_left_over(aws: SimEndpoints) -> Iterator[None]:
    yield
    HTTP.delete(f"{aws.control}/faults")
    for each in aws.get("instances"):
        if each["state"] not in ("ending", "ended"):
            aws.post(f"end/{each['id']}")


@pytest.fixture(scope="module")
def key_name(aws: SimEndpoints) -> str:
    aws.client().import_key_pair(KeyName="mine", PublicKeyMaterial=MINE.export_public_key())
    return "mine"


@pytest.fixture(scope="module")
def image(aws: SimEndpoints) -> str:
    images = aws.client().describe_images(
        Owners=["amazon"], Filters=[{"Name": "name", "Values": [GPU_IMAGE]}]
    )
    newest = max(images["Images"], key=lambda each: str(each["CreationDate"]))
    return str(newest["ImageId"])
