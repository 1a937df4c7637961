"""Whoever may read the objects of a namespace, except its Secrets, sees no secret of a job."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightkube import Client
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Event, Namespace, Pod
from scripts.clusters.kubernetes import ControlPlane
from tests.acceptance.machines.secret_traces import (
    agent_secrets,
    command_lines,
    find_words,
    native_request,
    submit_with_secrets,
)
from tests.clusters.kubernetes.conftest import Nodes, make_namespace
from tests.clusters.kubernetes.product import Product

pytestmark = pytest.mark.timeout(180)
NAMESPACE = "secrets"


@pytest.fixture
def product(tmp_path: Path, control_plane: ControlPlane, nodes: Nodes) -> Iterator[Product]:
    admin = Client(config=KubeConfig.from_file(control_plane.kubeconfig), trust_env=False)
    make_namespace(admin, NAMESPACE)
    node = nodes.start("node-secrets", tmp_path)
    made = Product(tmp_path, control_plane, admin, NAMESPACE)
    yield made
    made.server.stop()
    node.stop()
    admin.delete(Namespace, NAMESPACE)
    admin.close()


def test_what_the_cluster_shows_has_no_secret(product: Product) -> None:
    job = submit_with_secrets(product.server, "cluster")
    (work,) = (path for path in product.server.folder.rglob("work.json"))
    secrets = [*agent_secrets(work.parent), product.token]
    kinds: tuple[Any, ...] = (Job, Pod, ConfigMap, Event)
    objects = [
        json.dumps(each.to_dict(), default=str)
        for kind in kinds
        for each in product.admin.list(kind, namespace=NAMESPACE)
    ]
    assert any(job in text for text in objects)
    shown = [*objects, command_lines(), native_request(product.server, "cluster", product.server.folder)]
    assert "kind: Job" in shown[-1]
    assert [find_words(text, secrets) for text in shown] == [[] for _ in shown]
    product.server.anygpu("cancel", job)
    product.server.wait(job, "cancelled", within_s=60)
    product.wait_until_empty()
