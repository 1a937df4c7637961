"""A real Ray cluster with one node, two GPUs that it only counts, and four CPUs."""

from collections.abc import Iterator

import pytest
from scripts.clusters.ray import RayCluster, running_ray


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    with running_ray(cpus=4, gpus=2, resources={"accelerator_type:T4": 1}) as started:
        yield started
