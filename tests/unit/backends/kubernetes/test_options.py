"""Options of the Kubernetes backend, and how they lead to a connection."""

import httpx2
import pytest
import yaml
from pydantic import ValidationError

from anygpu.backends.kubernetes.cluster import Cluster, translate_status
from anygpu.backends.kubernetes.config import load_config
from anygpu.backends.kubernetes.options import KubernetesOptions, parse_toleration
from anygpu.backends.vm.provider import CredentialsRefused
from anygpu.errors import LaunchRefused, NoQuota


def kubeconfig(**user: object) -> str:
    return yaml.safe_dump(
        {
            "current-context": "one",
            "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],
            "contexts": [
                {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "ml"}},
                {"name": "two", "context": {"cluster": "c", "user": "u"}},
            ],
            "users": [{"name": "u", "user": user}],
        }
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": "Upper"},
        {"namespace": "ml-{team}"},
        {"cache_claim": "/data"},
        {"tolerations": ["key=value:Sometimes"]},
        {"node_selector": ["no-value"]},
        {"gpu_resource": "gpu"},
        {"api_url": "https://10.0.0.1"},
        {"token": "t"},
        {"api_url": "10.0.0.1:6443", "token": "t"},
        {"api_url": "https://10.0.0.1:6443\n", "token": "t"},
        {"api_url": "https://10.0.0.1:port", "token": "t"},
        {"api_url": "https://:6443", "token": "t"},
        {"certificate_authority": "not a certificate"},
        {"certificate_authority": "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----"},
        {"certificate_authority": "é"},
        {"api_url": "https://10.0.0.1", "token": "hid\nden"},
        {"api_url": "https://10.0.0.1", "token": "hiddén"},
        {"kubeconfig": "x", "kubeconfig_path": "/y"},
        {"unknown": 1},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        KubernetesOptions.model_validate(wrong)


async def test_a_token_that_no_header_can_contain_is_refused_without_its_value() -> None:
    text = kubeconfig(token="hid\nden")
    cluster = Cluster(load_config(KubernetesOptions.model_validate({"kubeconfig": text})))

    async def refuse(client: object) -> None:
        raise httpx2.LocalProtocolError("Illegal header value b'Bearer hid\\nden'")

    with pytest.raises(LaunchRefused, match="The token of the cluster has characters") as refused:
        await cluster._call("read the Job a", refuse)
    await cluster.close()
    assert "hid" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://10.0.0.1:6443", "https://rancher.example.com/k8s/clusters/c-1", "http://[::1]:8001"]
)
def test_an_address_may_have_a_port_and_a_path(url: str) -> None:
    assert KubernetesOptions.model_validate({"api_url": url, "token": "t"}).api_url == url


def test_a_namespace_may_depend_on_the_project() -> None:
    assert KubernetesOptions(namespace="ml-{project}").uses_all_namespaces
    assert not KubernetesOptions(namespace="ml").uses_all_namespaces


def test_tolerations_are_written_as_in_kubectl_taint() -> None:
    assert parse_toleration("a") == {"key": "a", "operator": "Exists"}
    assert parse_toleration("a=b") == {"key": "a", "operator": "Equal", "value": "b"}
    assert parse_toleration("a:NoExecute") == {"key": "a", "operator": "Exists", "effect": "NoExecute"}


def test_a_context_is_chosen() -> None:
    options = KubernetesOptions.model_validate({"kubeconfig": kubeconfig(token="t")})
    assert (load_config(options).namespace, load_config(options).context_name) == ("ml", "one")
    other = KubernetesOptions.model_validate({"kubeconfig": kubeconfig(token="t"), "context": "two"})
    assert load_config(other).namespace == "default"


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/bin/sh"}},
        {"client-certificate": "/etc/passwd", "client-key": "/etc/passwd"},
        {"tokenFile": "/etc/passwd"},
    ],
)
def test_a_stored_kubeconfig_can_neither_run_commands_nor_read_files_of_the_server(
    user: dict[str, object],
) -> None:
    options = KubernetesOptions.model_validate({"kubeconfig": kubeconfig(**user)})
    with pytest.raises(LaunchRefused, match="names a file or command"):
        load_config(options)


@pytest.mark.parametrize("text", ["[]", "just text", "{}", ": :", "users: 3"])
def test_a_broken_kubeconfig_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(LaunchRefused, match="cannot be used"):
        load_config(KubernetesOptions.model_validate({"kubeconfig": text}))


def test_a_missing_context_or_file_is_named() -> None:
    missing = KubernetesOptions.model_validate({"kubeconfig": kubeconfig(token="t"), "context": "three"})
    with pytest.raises(LaunchRefused, match="three"):
        load_config(missing)
    with pytest.raises(LaunchRefused, match="no-such-file"):
        load_config(KubernetesOptions(kubeconfig_path="/no-such-file"))


def test_errors_of_the_api_server_say_what_to_do() -> None:
    assert isinstance(
        translate_status("create the Job x", 403, "exceeded quota: gpus", is_write=True), NoQuota
    )
    denied = translate_status("create the Job x", 403, "jobs.batch is forbidden", is_write=True)
    assert isinstance(denied, LaunchRefused)
    assert "rbac.yaml" in denied.hint
    missing = translate_status("create the Job x", 404, 'namespaces "ml" not found', is_write=True)
    assert isinstance(missing, LaunchRefused)
    assert "Create the namespace" in missing.hint
    expired = translate_status("list pods", 401, "Unauthorized", is_write=False)
    assert isinstance(expired, CredentialsRefused)
    for denial in (
        'admission webhook "x" denied the request: no limits',
        "jobs \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no limits",
    ):
        by_admission = translate_status("create the Job x", 403, denial, is_write=True)
        assert isinstance(by_admission, LaunchRefused)
        assert by_admission.code == "launch_refused"
