"""Mistakes in the configuration of a cluster that show only when a connection is used."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from anygpu.backends.kubernetes.cluster import Cluster
from anygpu.backends.kubernetes.config import load_config
from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.errors import LaunchRefused

V1BETA1 = "client.authentication.k8s.io/v1beta1"
NO_CERTIFICATE = "bm8gY2VydGlmaWNhdGU="


async def refusal(folder: Path, user: dict[str, Any], **cluster: Any) -> LaunchRefused:
    """Return why a request is refused with a kubeconfig file."""
    content = {
        "current-context": "one",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(LaunchRefused) as refused:
        await read_job(KubernetesOptions(kubeconfig_path=str(file)))
    assert refused.value.hint
    return refused.value


async def read_job(options: KubernetesOptions) -> None:
    opened = Cluster(load_config(options))
    try:
        await opened.get("Job", "a", "ml")
    finally:
        await opened.close()


def plugin(script: str, version: str = V1BETA1) -> dict[str, Any]:
    return {"exec": {"apiVersion": version, "command": "/bin/sh", "args": ["-c", script]}}


@pytest.mark.parametrize(
    ("user", "reason", "advice"),
    [
        (plugin("exit 0", "client.authentication.k8s.io/v1"), "v1 not implemented", "Set `apiVersion: "),
        (plugin("echo expired >&2; exit 3"), "returned 3: expired", "Run this command on the server"),
        (plugin("echo no credential"), "printed no ExecCredential", "Run this command on the server"),
        (plugin("echo '{}'"), "printed no ExecCredential", "Run this command on the server"),
        (plugin("echo '[]'"), "printed no ExecCredential", "Run this command on the server"),
        (
            {"exec": {"apiVersion": V1BETA1, "command": "/no/such/plugin"}},
            "The command /no/such/plugin of the kubeconfig",
            "install it",
        ),
        ({"tokenFile": "/no/such/token"}, "cannot be read from /no/such/token", "`tokenFile`"),
        ({"tokenFile": "/"}, "cannot be read from /", "`tokenFile`"),
        ({"auth-provider": {"name": "gcp"}}, "auth-provider not supported", "`auth-provider`"),
        (
            {"client-certificate-data": NO_CERTIFICATE, "client-key-data": NO_CERTIFICATE},
            "cannot be used",
            "`client-certificate-data` and `client-key-data`",
        ),
    ],
)
async def test_a_user_without_a_credential_is_refused_with_the_part_to_correct(
    tmp_path: Path, user: dict[str, Any], reason: str, advice: str
) -> None:
    refused = await refusal(tmp_path, user)
    assert reason in refused.message
    assert advice in refused.hint


@pytest.mark.parametrize(
    ("cluster", "reason", "advice"),
    [
        ({"certificate-authority-data": NO_CERTIFICATE}, "cannot be used", "`certificate-authority-data`"),
        ({"certificate-authority-data": "a"}, "cannot be used", "`certificate-authority-data`"),
        ({"certificate-authority": "/no/such/ca"}, "cannot be used", "`certificate-authority`"),
        ({"server": "10.0.0.1:6443"}, "the `server` of the cluster c is not a URL", "kubectl config view"),
        (
            {"server": "https://10.0.0.1\x07"},
            "the `server` of the cluster c is not a URL",
            "kubectl config view",
        ),
    ],
)
async def test_a_cluster_that_cannot_be_used_is_refused_with_the_part_to_correct(
    tmp_path: Path, cluster: dict[str, Any], reason: str, advice: str
) -> None:
    refused = await refusal(tmp_path, {"token": "t"}, **cluster)
    assert reason in refused.message
    assert advice in refused.hint


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_a_pod_without_the_address_of_its_cluster_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in ("token", "namespace"):
        (tmp_path / name).write_text("x")
    for name in {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} - {missing}:
        monkeypatch.setenv(name, "443")
    monkeypatch.delenv(missing, raising=False)
    with pytest.raises(LaunchRefused, match=f"{missing}. is missing") as refused:
        load_config(KubernetesOptions(), account=str(tmp_path))
    assert "`kubeconfig_path`" in refused.value.hint
