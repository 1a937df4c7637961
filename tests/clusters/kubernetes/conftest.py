"""A real control plane for all tests of this folder, and nodes on it. Needs root."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError, Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import Namespace
from scripts.clusters.kubernetes import ClusterUnavailable, ControlPlane, find_programs, run_control_plane
from tests.clusters.conftest import report_missing_engine

from anygpu.testing.kubelet.node import Kubelet

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    try:
        find_programs()
    except ClusterUnavailable as error:
        report_missing_engine("Kubernetes", str(error))
    with run_control_plane(tmp_path_factory.mktemp("kubernetes")) as plane:
        yield plane


@pytest.fixture
def admin(control_plane: ControlPlane) -> Iterator[Client]:
    client = Client(config=KubeConfig.from_file(control_plane.kubeconfig), trust_env=False)
    yield client
    client.close()


@pytest.fixture
def namespace(admin: Client) -> Iterator[str]:
    name = f"test-{next(_numbers)}"
    make_namespace(admin, name)
    yield name
    admin.delete(Namespace, name)


def make_namespace(admin: Client, name: str) -> None:
    made: Any = Namespace.from_dict({"metadata": {"name": name}})
    try:
        admin.create(made)
    except ApiError as error:
        if error.status.code != 409:
            raise


StartNode = Callable[..., Kubelet]


class Nodes:
    """All nodes that the tests have started. They share a client, because stopped ones still read from it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.client = Client(config=KubeConfig.from_file(plane.kubeconfig), trust_env=False)
        self.started: list[Kubelet] = []

    def start(self, name: str, folder: Path, **kwargs: Any) -> Kubelet:
        kwargs.setdefault("allocatable", {"nvidia.com/gpu": "1"})
        kwargs.setdefault("labels", {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"})
        kubelet = Kubelet(self.client, name, folder / name, **kwargs)
        self.started.append(kubelet)
        kubelet.start()
        return kubelet


@pytest.fixture(scope="session")
def nodes(control_plane: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(control_plane)
    yield made
    made.client.close()  # this ends the watches
    for kubelet in made.started:
        kubelet.join()


@pytest.fixture
def start_node(nodes: Nodes, tmp_path: Path) -> Iterator[StartNode]:
    """A function that adds a node to the cluster. All nodes are removed after the test."""
    before = len(nodes.started)

    def start(name: str, **kwargs: Any) -> Kubelet:
        return nodes.start(name, tmp_path, **kwargs)

    yield start
    for kubelet in nodes.started[before:]:
        kubelet.stop()
