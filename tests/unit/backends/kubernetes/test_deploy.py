"""The manifests in deploy/kubernetes are valid, and grant the rights that the backend checks, and no others."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.unit.backends.kubernetes.test_manifests import VERSIONS

from anygpu.backends.kubernetes.access import PERMISSIONS
from anygpu.settings import LocalSettings, ServerSettings, StoreSettings

DEPLOY = Path(__file__).resolve().parents[4] / "deploy" / "kubernetes"
SECTIONS: dict[str, Any] = {"SERVER": ServerSettings, "STORE": StoreSettings, "LOCAL": LocalSettings}


def documents(name: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((DEPLOY / name).read_text()) if each]


def rights(name: str, kind: str, role: str) -> set[tuple[str, str, str]]:
    [found] = [each for each in documents(name) if (each["kind"], each["metadata"]["name"]) == (kind, role)]
    return {
        (verb, resource, group)
        for rule in found["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["rbac.yaml", "rbac-namespaces.yaml", "server.yaml", "token.yaml"])
def test_manifests_are_valid_in_all_supported_versions(name: str, version: str) -> None:
    for document in documents(name):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_roles_grant_exactly_what_the_backend_checks() -> None:
    needed = {(each.verb, each.resource, each.group) for each in PERMISSIONS if not each.cluster_wide}
    cluster_wide = {(each.verb, each.resource, each.group) for each in PERMISSIONS if each.cluster_wide}
    assert rights("rbac.yaml", "Role", "anygpu") == needed
    assert rights("rbac.yaml", "ClusterRole", "anygpu-offers") == cluster_wide
    assert rights("rbac-namespaces.yaml", "ClusterRole", "anygpu") == needed


def test_the_token_is_that_of_the_service_account_with_the_rights() -> None:
    [account] = [each for each in documents("rbac.yaml") if each["kind"] == "ServiceAccount"]
    [secret] = documents("token.yaml")
    annotations = {"kubernetes.io/service-account.name": account["metadata"]["name"]}
    assert secret["type"] == "kubernetes.io/service-account-token"
    assert secret["metadata"]["annotations"] == annotations


def test_the_server_uses_settings_that_exist() -> None:
    secret = next(each for each in documents("server.yaml") if each["kind"] == "Secret")
    deployment = next(each for each in documents("server.yaml") if each["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    names = [*secret["stringData"], *(each["name"] for each in pod["containers"][0]["env"])]
    nested = [name.removeprefix("ANYGPU_").split("__") for name in names if "__" in name]
    assert len(nested) > 8
    for section, name in nested:
        assert name.lower() in SECTIONS[section].__dataclass_fields__
    assert deployment["spec"]["replicas"] == 2
    assert not any("persistentVolumeClaim" in volume for volume in pod["volumes"])
