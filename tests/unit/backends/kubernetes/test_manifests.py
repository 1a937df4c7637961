"""The manifests of an attempt, checked against the published schemas of Kubernetes."""

import base64
import io
import json
import zipfile
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.unit.backends.kubernetes.objects import launch, recorded

from anygpu.backends.kubernetes.manifests import (
    PodPlan,
    agent_maps_of,
    build_agent_map,
    build_job,
    build_secret,
    build_ticket,
    compress_archive,
)
from anygpu.backends.kubernetes.offers import ClusterState, read_state
from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.backends.ssh.bootstrap import build_archive
from anygpu.spec.sections import Gpu, Resources

VERSIONS = ["1.25", "1.27", "1.29", "1.31", "1.33", "1.35", "1.37"]
FULL: dict[str, Any] = {
    "image_pull_secrets": ["registry"],
    "node_selector": ["pool=gpu"],
    "tolerations": ["team=vision:NoSchedule", "batch"],
    "priority_class": "low",
    "service_account": "trainer",
    "run_as_user": 1000,
    "cache_claim": "cache",
    "memory_gib": 24,
}


def cluster() -> ClusterState:
    return read_state(recorded("nodes"), recorded("pods"), "nvidia.com/gpu")


def plan(name: str = "n1-standard-8", *, spot: bool = False, gpus: int = 1, **options: Any) -> PodPlan:
    chosen = KubernetesOptions.model_validate(options)
    gpu = Gpu(count=gpus) if gpus else None
    pool = next(p for p in cluster().pools(KubernetesOptions()) if p.name == name and p.is_spot is spot)
    return PodPlan(
        launch=launch(Resources(gpu=gpu, disk_gib=20), image="nvcr.test/pytorch:1"),
        pool=pool,
        options=chosen,
        namespace="ml",
        server_tag="tag",
        agent_name="anygpu-agent-tag",
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("options", [{}, FULL], ids=["plain", "full"])
def test_manifests_are_valid_in_all_supported_versions(version: str, options: dict[str, Any]) -> None:
    made = plan(**options)
    archive = build_archive()
    for manifest in (build_job(made), build_secret(made, {}, "uid"), build_agent_map(archive, "ml", "tag")):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_job_runs_one_pod_once_and_ends_by_itself() -> None:
    job = build_job(plan(start_limit_s=100, keep_s=60))
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert spec["activeDeadlineSeconds"] == 3600 + 100 + 600
    assert spec["ttlSecondsAfterFinished"] == 60
    scaled = build_job(plan(start_limit_s=100, autoscale_wait_s=900))
    assert scaled["spec"]["activeDeadlineSeconds"] == 3600 + 100 + 900 + 600
    assert job["metadata"]["labels"]["anygpu/attempt"] == job["metadata"]["name"]
    assert agent_maps_of(job) == ["anygpu-agent-tag"]


def test_the_pod_has_the_resources_of_the_job_and_shared_memory() -> None:
    pod = build_job(plan(**FULL))["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "nvcr.test/pytorch:1"
    assert container["resources"] == {
        "requests": {"cpu": "1", "nvidia.com/gpu": "1", "memory": "24576Mi", "ephemeral-storage": "20480Mi"},
        "limits": {"nvidia.com/gpu": "1", "memory": "24576Mi"},
    }
    shared = next(volume for volume in pod["volumes"] if volume["name"] == "shared-memory")
    assert shared["emptyDir"] == {"medium": "Memory", "sizeLimit": "8192Mi"}
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert pod["nodeSelector"]["pool"] == "gpu"
    assert pod["nodeSelector"]["cloud.google.com/gke-accelerator"] == "nvidia-tesla-t4"
    assert {"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"} in pod[
        "tolerations"
    ]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("trainer", True)
    assert (pod["priorityClassName"], pod["imagePullSecrets"]) == ("low", [{"name": "registry"}])


def environment(made: PodPlan) -> dict[str, str]:
    [container] = build_job(made)["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_a_pod_without_gpus_hides_those_of_its_node() -> None:
    hidden = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert environment(plan(gpus=0)) == hidden
    assert environment(plan(gpus=0, cache_claim="cache")).items() > hidden.items()
    assert environment(plan(gpus=1)) == {}


def test_a_pod_with_a_user_keeps_the_restricted_pod_security_standard() -> None:
    pod = build_job(plan(run_as_user=1000))["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    [plain] = build_job(plan())["spec"]["template"]["spec"]["containers"]
    assert "capabilities" not in plain["securityContext"]  # an image that runs as root may need them


def test_a_spot_pod_tolerates_spot_nodes_and_gets_no_more_time_than_its_provider_gives() -> None:
    made = plan(spot=True)
    pod = build_job(made)["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 15
    assert build_ticket(made)["sigterm_notice_s"] == 15
    assert any(each["key"] == "cloud.google.com/gke-spot" for each in pod["tolerations"])
    assert build_job(plan())["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 120


def refused_labels(made: PodPlan) -> set[tuple[str, str]]:
    """Return the labels of nodes on which the pod cannot be scheduled."""
    affinity = build_job(made)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {each["operator"] for each in term["matchExpressions"]} == {"NotIn"}
    return {(each["key"], value) for each in term["matchExpressions"] for value in each["values"]}


@pytest.mark.parametrize("spot", [False, True])
def test_no_pod_can_be_scheduled_on_windows_nodes(spot: bool) -> None:
    assert ("kubernetes.io/os", "windows") in refused_labels(plan(spot=spot))


def test_only_the_pod_of_a_spot_offer_can_be_scheduled_on_spot_nodes() -> None:
    spot_nodes = [node for node in cluster().nodes if node.spot is not None]
    assert spot_nodes
    for node in spot_nodes:
        assert refused_labels(plan()) & set(node.labels.items())
        assert not refused_labels(plan(spot=True)) & set(node.labels.items())
    spot = build_job(plan(spot=True))["spec"]["template"]["spec"]
    assert spot["nodeSelector"]["cloud.google.com/gke-spot"] == "true"


def test_only_the_secret_has_the_ticket() -> None:
    made = plan()
    secret = build_secret(made, build_ticket(made), "uid")
    ticket = json.loads(base64.b64decode(secret["data"]["ticket.json"]))
    assert (ticket["ticket"], ticket["in_image"], ticket["remote"]) == ("the ticket", True, True)
    assert "the ticket" not in yaml.safe_dump(build_job(made))
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid"


def test_the_archive_of_the_agent_fits_into_a_config_map_with_room_to_grow() -> None:
    packed = compress_archive(build_archive().data)
    assert len(packed) < 700_000
    assert "__main__.py" in zipfile.ZipFile(io.BytesIO(packed)).namelist()
