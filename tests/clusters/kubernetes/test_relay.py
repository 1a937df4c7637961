"""A job in a pod that has no route to the server: its messages go through the server's bucket."""

import asyncio
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lightkube import Client
from scripts.clusters.kubernetes import ControlPlane
from tests.acceptance.server.test_relay_crashes import bucket_of, storage_environment
from tests.clusters.kubernetes.conftest import StartNode
from tests.clusters.kubernetes.product import Product
from tests.contracts.blobs.conftest import emulators, s3  # noqa: F401 - fixtures

from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs

pytestmark = pytest.mark.timeout(400)  # the first run installs the emulator of the bucket
NOWHERE = "http://127.0.0.1:1"
KILLED_STEPS = 100


@pytest.fixture
def product(
    tmp_path: Path,
    control_plane: ControlPlane,
    admin: Client,
    namespace: str,
    start_node: StartNode,
    s3: dict[str, object],  # noqa: F811
) -> Iterator[Product]:
    environment = {
        **storage_environment(s3, bucket_of(tmp_path)),
        "ANYGPU_RELAY__POLL_S": "0.2",
        "ANYGPU_SERVER__AGENT_URL": NOWHERE,
    }
    start_node("relayed")
    made = Product(tmp_path, control_plane, admin, namespace, environment=environment, relay="storage")
    yield made
    made.server.stop()


@pytest.fixture
def bucket(tmp_path: Path, s3: dict[str, object]) -> Blobs:  # noqa: F811
    """The server's bucket, which has the mailboxes."""
    return open_blobs(bucket_of(tmp_path), options=s3)


async def messages(bucket: Blobs) -> list[str]:
    return [info.key async for info in bucket.list("relay")]


async def wait_for_messages(bucket: Blobs, *, some: bool) -> None:
    """Wait until there are some messages in the mailboxes, or none is left."""
    until = time.monotonic() + 120
    while bool(left := await messages(bucket)) is not some:
        assert time.monotonic() < until, left
        await asyncio.sleep(0.2)


def has_reached(step: int, job: dict[str, Any]) -> bool:
    return ((job["progress"] or {}).get("step") or 0) >= step


async def test_a_job_without_a_route_completes_and_leaves_no_message(product: Product, bucket: Blobs) -> None:
    job = product.submit()
    ended = product.server.wait(job, "completed", "failed", within_s=180)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["failure"]
    assert product.model(job).startswith(b"[60, ")
    assert "step 60/60" in product.server.anygpu("logs", job)
    product.wait_until_empty()
    await wait_for_messages(bucket, some=False)


async def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    product: Product, bucket: Blobs
) -> None:
    job = product.submit(steps=KILLED_STEPS)
    for step in (10, 40, 70):
        product.server.until(job, partial(has_reached, step), within_s=120)
        product.server.kill()
        await wait_for_messages(bucket, some=True)
        product.server.start()
    ended = product.server.wait(job, "completed", "failed", within_s=180)
    assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["failure"]
    steps = list(range(1, KILLED_STEPS + 1))
    logged = re.findall(rf"step (\d+)/{KILLED_STEPS} ", product.server.anygpu("logs", job))
    assert [int(step) for step in logged] == steps
    [series] = product.server.ask("GET", f"training/{job}/metrics?name=loss&points=1000")["series"]
    assert [point[0] for point in series["points"]] == steps
    product.wait_until_empty()
    await wait_for_messages(bucket, some=False)
