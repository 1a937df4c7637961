"""A server in a pod uses the service account of its pod, as the kubelet mounts it."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from lightkube import Client
from scripts.clusters.kubernetes import ControlPlane
from tests.clusters.kubernetes.product import RBAC, apply_manifests, make_token

from anygpu.backends.kubernetes.access import missing_permissions
from anygpu.backends.kubernetes.cluster import Cluster
from anygpu.backends.kubernetes.config import load_config
from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.errors import LaunchRefused


@pytest.fixture
def account(
    control_plane: ControlPlane,
    admin: Client,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The directory of the service account of a pod, and the variables of its container."""
    apply_manifests(admin, RBAC, namespace)
    (tmp_path / "token").write_text(make_token(admin, namespace))
    (tmp_path / "namespace").write_text(namespace)
    (tmp_path / "ca.crt").write_bytes(control_plane.certificate.read_bytes())
    address = urlsplit(control_plane.url)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    return tmp_path


@pytest.fixture
async def cluster(account: Path) -> AsyncIterator[Cluster]:
    made = Cluster(load_config(KubernetesOptions(), account=str(account)))
    yield made
    await made.close()


async def test_the_account_of_the_pod_has_the_rights_of_its_role_in_its_namespace(
    cluster: Cluster, namespace: str
) -> None:
    assert cluster.namespace == namespace
    assert await missing_permissions(cluster, namespace) == []
    assert (await cluster.list_objects("Pod", namespace, keep=bool))[0] == []


async def test_a_token_that_the_kubelet_has_renewed_is_read_again(
    cluster: Cluster, account: Path, namespace: str
) -> None:
    token = (account / "token").read_text()
    (account / "token").write_text("expired")
    with pytest.raises(LaunchRefused, match="does not accept the credentials"):
        await cluster.list_objects("Pod", namespace, keep=bool)
    (account / "token").write_text(token)
    await cluster.list_objects("Pod", namespace, keep=bool)
