"""Offers from recorded nodes and pods of a real control plane."""

import pytest
from tests.unit.backends.kubernetes.objects import Json, recorded

from anygpu.backends.kubernetes.nodes import blocking_taint, pod_requests, read_node, tolerates
from anygpu.backends.kubernetes.offers import (
    ClusterState,
    build_offers,
    find_pool,
    group_nodes,
    place_of,
    read_state,
)
from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.events.offers import Offer
from anygpu.plan.hardware import gpus
from anygpu.spec.sections import Gpu, Resources

GPU = "nvidia.com/gpu"
ONE_GPU = Resources(gpu=Gpu(count=1))


def state(nodes: list[Json] | None = None) -> ClusterState:
    return read_state(recorded("nodes") if nodes is None else nodes, recorded("pods"), GPU)


def offers(need: Resources, **options: object) -> dict[tuple[str, bool], Offer]:
    made = build_offers(state(), need, backend="lab", options=KubernetesOptions.model_validate(options))
    return {(offer.name, offer.interruptible): offer for offer in made}


def test_each_kind_of_node_is_one_offer() -> None:
    assert set(offers(ONE_GPU)) == {
        ("2xNVIDIA-A100-SXM4-80GB", False),
        ("cpu-8", False),
        ("n1-standard-8", False),
        ("n1-standard-8", True),
    }


def test_an_offer_has_the_gpus_the_place_and_the_terms_of_its_nodes() -> None:
    a100 = offers(ONE_GPU)["2xNVIDIA-A100-SXM4-80GB", False]
    assert (a100.gpu_kind, a100.gpu_count, a100.gpu_memory_gib) == ("NVIDIA-A100-SXM4-80GB", 2, 80)
    assert (a100.driver, a100.cpus, a100.memory_gib) == ("550.54.15", 8, 16)
    assert gpus.matches("A100-80GB", a100.gpu_kind)
    assert (a100.own, a100.shared, a100.containers, a100.self_expires) == (True, True, True, "max_duration")
    assert a100.max_run_s == 7 * 86_400
    t4 = offers(ONE_GPU)["n1-standard-8", False]
    assert (t4.region, t4.zone) == ("us-east1", "us-east1-b")
    assert gpus.matches("T4", t4.gpu_kind)


def test_agents_behind_a_relay_have_time_for_its_messages() -> None:
    assert {offer.lease_s for offer in offers(Resources(), lease_s=60, relay="storage").values()} == {180}
    assert {offer.lease_s for offer in offers(Resources(), lease_s=60, relay="").values()} == {60}


def with_os(node: Json, os: str, name: str = "other") -> Json:
    labels = {**(node["metadata"].get("labels") or {}), "kubernetes.io/os": os}
    return {**node, "metadata": {**node["metadata"], "name": name, "labels": labels}}


def test_only_linux_nodes_are_offered() -> None:
    nodes: list[Json] = recorded("nodes")
    first = next(node for node in nodes if read_node(node, GPU).gpu_count == 2)
    options = KubernetesOptions()

    def free_on(*more: Json) -> dict[str, int | None]:
        made = build_offers(state([*nodes, *more]), ONE_GPU, backend="lab", options=options)
        return {f"{offer.name} {offer.interruptible}": offer.free for offer in made}

    assert free_on(with_os(first, "windows")) == free_on()
    assert free_on(with_os(first, "linux")) == {**free_on(), "2xNVIDIA-A100-SXM4-80GB False": 3}
    windows = ClusterState((read_node(with_os(first, "windows"), GPU),), {}, {})
    assert windows.pools(options) == []


def test_free_is_what_running_pods_do_not_request() -> None:
    assert offers(ONE_GPU)["2xNVIDIA-A100-SXM4-80GB", False].free == 1
    two = offers(Resources(gpu=Gpu(count=2)))["2xNVIDIA-A100-SXM4-80GB", False]
    assert (two.free, two.wait_reason) == (0, "none of 1 nodes has enough free nvidia.com/gpu")


def test_a_pod_that_waits_for_a_node_counts_too() -> None:
    waiting = {**recorded("pods")[0], "spec": {"containers": []}}
    seen = read_state(recorded("nodes"), [*recorded("pods"), waiting], GPU)
    options = KubernetesOptions()
    made = {offer.name: offer for offer in build_offers(seen, ONE_GPU, backend="lab", options=options)}
    assert made["2xNVIDIA-A100-SXM4-80GB"].free == 0


def test_a_launch_after_the_list_of_pods_counts_too() -> None:
    options = KubernetesOptions()
    pool = next(each for each in state().pools(options) if each.name.startswith("2x"))
    seen = read_state(recorded("nodes"), recorded("pods"), GPU, launched=[place_of(pool)])
    made = {offer.name: offer for offer in build_offers(seen, ONE_GPU, backend="lab", options=options)}
    assert made["2xNVIDIA-A100-SXM4-80GB"].free == 0


def test_a_job_with_gpus_tolerates_the_taint_of_gpu_nodes_and_others_do_not() -> None:
    assert offers(ONE_GPU)["n1-standard-8", False].free == 1
    cpu = offers(Resources())["n1-standard-8", False]
    assert cpu.free == 0
    assert "has the taint nvidia.com/gpu=present:NoSchedule" in cpu.wait_reason


def test_spot_nodes_are_interruptible_offers_whose_taint_is_tolerated() -> None:
    spot = offers(ONE_GPU)["n1-standard-8", True]
    assert (spot.free, spot.interruptible) == (1, True)


def test_a_cordoned_node_has_nothing_free() -> None:
    cpu = offers(Resources())["cpu-8", False]
    assert (cpu.free, cpu.wait_reason) == (0, "node cpu-a is cordoned (unschedulable)")


def test_an_autoscaler_turns_a_full_kind_into_a_wait() -> None:
    full = offers(Resources(gpu=Gpu(count=2)), autoscale_wait_s=240)["2xNVIDIA-A100-SXM4-80GB", False]
    assert (full.free, full.expected_wait_s) == (None, 240)


def test_prices_by_name_win_over_the_general_one() -> None:
    priced = offers(
        Resources(cpus=8),
        price_microusd_per_hour=5,
        prices_microusd_per_hour=["NVIDIA-A100-SXM4-80GB=7", "n1-standard-8=9"],
    )
    assert {key[0]: offer.price_microusd_per_hour for key, offer in priced.items()} == {
        "2xNVIDIA-A100-SXM4-80GB": 7,
        "cpu-8": 5,
        "n1-standard-8": 9,
    }


@pytest.mark.parametrize(
    ("need", "price"),
    [
        (ONE_GPU, 4_000_000),
        (Resources(gpu=Gpu(count=1), cpus=8), 4_000_000),  # jobs with GPUs share the node by GPUs
        (Resources(gpu=Gpu(count=2)), 8_000_000),
        (Resources(gpu=Gpu(count=3)), 8_000_000),  # does not fit, and no pod costs more than its node
        (Resources(), 2_000_000),  # the option `cpus` says what a job requests by default
        (Resources(cpus=4), 4_000_000),
        (Resources(gpu=Gpu(count=1), nodes=2), 4_000_000),  # of each pod
    ],
)
def test_a_pod_costs_its_share_of_a_node(need: Resources, price: int) -> None:
    made = offers(need, price_microusd_per_hour=8_000_000, cpus=2)
    assert made["2xNVIDIA-A100-SXM4-80GB", False].price_microusd_per_hour == price


def test_an_offer_has_as_many_gpus_as_its_price_is_for() -> None:
    priced = offers(ONE_GPU, price_microusd_per_hour=8_000_000)["2xNVIDIA-A100-SXM4-80GB", False]
    too_many = offers(Resources(gpu=Gpu(count=3)), price_microusd_per_hour=8_000_000)
    assert priced.gpu_count == 1
    assert too_many["2xNVIDIA-A100-SXM4-80GB", False].gpu_count == 2
    assert offers(ONE_GPU)["2xNVIDIA-A100-SXM4-80GB", False].gpu_count == 2


def test_a_small_share_of_a_node_with_a_price_is_not_free_of_charge() -> None:
    assert offers(ONE_GPU, price_microusd_per_hour=1)["2xNVIDIA-A100-SXM4-80GB", False].is_paid
    assert not offers(ONE_GPU)["2xNVIDIA-A100-SXM4-80GB", False].is_paid


def test_the_node_selector_leaves_out_other_nodes() -> None:
    chosen = offers(ONE_GPU, node_selector=["cloud.google.com/gke-accelerator=nvidia-tesla-t4"])
    assert {key[0] for key in chosen} == {"n1-standard-8"}


def test_without_the_right_to_list_pods_it_is_not_known_what_is_free() -> None:
    seen = read_state(recorded("nodes"), None, GPU)
    made = {
        each.name: each for each in build_offers(seen, ONE_GPU, backend="lab", options=KubernetesOptions())
    }
    assert made["2xNVIDIA-A100-SXM4-80GB"].free is None
    assert made["cpu-8"].free == 0


def test_an_offer_leads_back_to_its_nodes() -> None:
    options = KubernetesOptions()
    for offer in build_offers(state(), ONE_GPU, backend="lab", options=options):
        pool = find_pool(state(), offer, options)
        assert pool is not None
        assert (pool.name, pool.is_spot) == (offer.name, offer.interruptible)
    assert find_pool(state([]), offer, options) is None


def test_nodes_of_one_type_with_other_gpus_are_different_offers() -> None:
    small, large = recorded("nodes")[:1] * 2
    large = {
        **large,
        "status": {**large["status"], "allocatable": {**large["status"]["allocatable"], GPU: "4"}},
    }
    labels = {**small["metadata"]["labels"], "node.kubernetes.io/instance-type": "m"}
    both = [{**node, "metadata": {**node["metadata"], "labels": labels}} for node in (small, large)]
    names = {pool.name for pool in group_nodes(read_node(node, GPU) for node in both)}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("labels", "is_spot"),
    [
        ({"eks.amazonaws.com/capacityType": "SPOT"}, True),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, False),
        ({"karpenter.sh/capacity-type": "spot"}, True),
        ({"kubernetes.azure.com/scalesetpriority": "spot"}, True),
        ({"cloud.google.com/gke-preemptible": "true"}, True),
    ],
)
def test_spot_labels_of_the_providers(labels: dict[str, str], is_spot: bool) -> None:
    node = {"metadata": {"name": "n", "labels": labels}, "spec": {}, "status": {"allocatable": {GPU: "1"}}}
    assert (read_node(node, GPU).spot is not None) is is_spot


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"k8s.amazonaws.com/accelerator": "nvidia-tesla-v100"}, "V100"),
        ({"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"}, "L4"),
        ({"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}, "H100"),
        ({"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}, "RTX4090"),
    ],
)
def test_product_labels_are_gpu_kinds_that_the_planner_knows(labels: dict[str, str], kind: str) -> None:
    node = {"metadata": {"name": "n", "labels": labels}, "spec": {}, "status": {"allocatable": {GPU: "1"}}}
    assert gpus.matches(kind, read_node(node, GPU).product)


@pytest.mark.parametrize(
    ("toleration", "matches"),
    [
        ({"key": "a", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "a", "operator": "Equal", "value": "x"}, True),
        ({"key": "a", "value": "y"}, False),
        ({"key": "b", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations_match_as_kubernetes_says(toleration: Json, matches: bool) -> None:
    assert tolerates(toleration, {"key": "a", "value": "x", "effect": "NoSchedule"}) is matches


def test_a_taint_that_only_prefers_other_pods_blocks_nothing() -> None:
    node = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}}
    assert blocking_taint(read_node(node, GPU), []) == ""


def test_the_requests_of_a_pod_are_those_that_the_scheduler_counts() -> None:
    pod = {
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {GPU: "1", "cpu": "2"}}}, {}],
            "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
            "overhead": {"cpu": "100m"},
        }
    }
    assert pod_requests(pod) == {"cpu": 3.1, GPU: 1.0, "pods": 1.0}


def test_a_job_may_have_as_many_nodes_as_the_cluster_has_room_for_its_pods() -> None:
    assert offers(ONE_GPU)["2xNVIDIA-A100-SXM4-80GB", False].max_nodes == 2
    assert offers(Resources(gpu=Gpu(count=2)))["2xNVIDIA-A100-SXM4-80GB", False].max_nodes == 1


def test_a_job_with_several_nodes_counts_no_node_whose_taint_it_does_not_tolerate() -> None:
    free = next(node for node in recorded("nodes") if node["metadata"]["name"] == "gpu-a")
    metadata = {**free["metadata"], "name": "tainted"}
    taints = [{"key": "team", "value": "vision", "effect": "NoSchedule"}]
    both = state([free, {**free, "metadata": metadata, "spec": {**free["spec"], "taints": taints}}])

    def most_nodes(*tolerations: str) -> int:
        options = KubernetesOptions(tolerations=tolerations)
        [offer] = build_offers(both, Resources(gpu=Gpu(count=2)), backend="lab", options=options)
        return offer.max_nodes

    assert most_nodes() == 1
    assert most_nodes("team=vision") == 2
