"""Jobs on nodes without a route to the server, through a directory and through the bucket of the server.

`test_interrupted.py` has jobs whose relay is the directory of the cluster.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.clusters.slurm import HIGH, SlurmCluster
from tests.acceptance.server.test_relay_crashes import bucket_of, storage_environment
from tests.clusters.slurm.product import Product, backend_settings, wait_until
from tests.contracts.blobs.conftest import emulators, s3  # noqa: F401 - fixtures

from anygpu.store.blobs.factory import open_blobs

pytestmark = pytest.mark.timeout(400)  # the first run installs the emulator of the bucket
REMOVED_S = 120.0


@pytest.fixture
def product(
    tmp_path: Path,
    cluster: SlurmCluster,
    s3: dict[str, object],  # noqa: F811
) -> Iterator[Product]:
    settings = (
        f'[relay]\ndirectory = "{tmp_path}/mailboxes"\npoll_s = 0.2\n',
        backend_settings("directory", tmp_path, partitions=[HIGH], relay="directory"),
        backend_settings("storage", tmp_path, partitions=[HIGH], relay="storage"),
    )
    environment = {
        **storage_environment(s3, bucket_of(tmp_path)),
        "ANYGPU_SERVER__AGENT_URL": "http://127.0.0.1:1",
    }
    made = Product(tmp_path, cluster, "\n".join(settings), **environment)
    yield made
    made.server.stop()
    assert "Traceback" not in (log := (tmp_path / "server.log").read_text()), log


async def test_jobs_without_a_route_complete_and_leave_no_message(
    product: Product,
    tmp_path: Path,
    s3: dict[str, object],  # noqa: F811
) -> None:
    jobs = [product.submit(backend) for backend in ("directory", "storage")]
    for job in jobs:
        ended = product.server.wait(job, "completed", "failed", within_s=120)
        assert (ended["status"], ended["attempt"]) == ("completed", 1), ended["failure"]
        assert "step 60/60" in product.server.anygpu("logs", job)
    first, second = (product.model(job) for job in jobs)
    assert first == second
    product.wait_until_empty()
    mailboxes = tmp_path / "mailboxes"
    assert mailboxes.is_dir(), "one job has used it"
    wait_until(lambda: [*mailboxes.iterdir()] == [], within_s=REMOVED_S)
    blobs = open_blobs(bucket_of(tmp_path), options=s3)
    until = time.monotonic() + REMOVED_S
    while left := [info.key async for info in blobs.list("relay")]:
        assert time.monotonic() < until, left
        await asyncio.sleep(0.2)
