"""Nodes of a Ray cluster become offers."""

from typing import Any

import pytest
from tests.unit.backends.ray.dashboard import ADDRESS, GPU, LISTED, NODE, OPTIONS, USAGE

from anygpu.backends.ray.nodes import RayDemand, build_offers, parse_nodes
from anygpu.backends.ray.options import RayOptions
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

OTHER = {**LISTED, "node_id": "other", "node_ip": "192.0.2.3"}
IDLE: dict[str, Any] = {NODE: {}, "other": {}}  # nothing is in use


def offers(
    need: Resources, options: RayOptions = OPTIONS, *, usage: Any = USAGE, nodes: Any = (LISTED,), **more: Any
) -> list[Offer]:
    return build_offers(
        parse_nodes(nodes, usage), need, backend="lab", options=options, submitted=more.get("submitted", {})
    )


def test_an_offer_has_the_kind_the_size_and_what_is_free() -> None:
    [offer] = offers(GPU)
    assert (offer.name, offer.gpu_kind, offer.gpu_count, offer.cpus) == ("2xT4-4cpu", "T4", 2, 4)
    assert (offer.memory_gib, offer.free, offer.wait_reason, offer.own) == (22, 1, "", True)


def test_a_job_that_was_just_submitted_takes_a_place() -> None:
    [offer] = offers(GPU, submitted={"2xT4-4cpu": [RayDemand(gpus=1, cpus=1, memory_bytes=0)]})
    assert offer.free == 0
    assert offer.wait_reason.endswith("and 1 jobs of this server were submitted a few seconds ago")


def test_a_job_that_was_just_submitted_takes_all_that_it_needs() -> None:
    both = RayDemand(gpus=2, cpus=1, memory_bytes=0)
    [offer] = offers(GPU, usage=IDLE, submitted={"2xT4-4cpu": [both]})
    assert offer.free == 0
    [offer] = offers(GPU, usage=IDLE, nodes=[LISTED, OTHER], submitted={offer.name: [both]})
    assert offer.free == 2
    [offer] = offers(GPU, usage=IDLE, submitted={offer.name: [RayDemand(gpus=0, cpus=4, memory_bytes=0)]})
    assert offer.free == 0


def test_submitted_jobs_are_placed_the_largest_first() -> None:
    one, two = (RayDemand(gpus=count, cpus=1, memory_bytes=0) for count in (1, 2))
    nodes = [OTHER, LISTED]  # 2 and 1 free GPUs
    [offer] = offers(GPU, usage={**IDLE, **USAGE}, nodes=nodes, submitted={"2xT4-4cpu": [one, two]})
    assert offer.free == 0


def test_a_submitted_job_that_fits_on_no_node_takes_the_next_place() -> None:
    three = RayDemand(gpus=3, cpus=1, memory_bytes=0)
    usage = {**IDLE, **USAGE}
    [offer] = offers(GPU, usage=usage, nodes=[LISTED, OTHER], submitted={"2xT4-4cpu": [three]})
    assert offer.free == 2


def test_an_autoscaler_reports_nodes_by_their_addresses() -> None:
    by_address = {"192.0.2.2": USAGE[NODE], "192.0.2.3": {"GPU": [2.0, 2.0]}}
    [offer] = offers(GPU, usage=by_address, nodes=[LISTED, OTHER])
    assert (offer.free, offer.wait_reason) == (1, "")
    [offer] = offers(Resources.model_validate({"gpu": 2}), usage=by_address, nodes=[LISTED, OTHER])
    assert offer.free == 0
    assert offer.wait_reason.startswith("1 of 4 T4 GPUs of 2 Ray nodes are free")


def test_without_a_report_it_is_not_known_what_is_free() -> None:
    [offer] = offers(GPU, usage={})
    assert offer.free is None
    assert "does not report what its nodes use" in offer.wait_reason
    assert not offer.is_full  # so jobs are submitted


def test_a_node_without_a_report_counts_only_if_the_others_are_full() -> None:
    [offer] = offers(GPU, nodes=[LISTED, OTHER])
    assert offer.free == 1
    [offer] = offers(Resources.model_validate({"gpu": 2}), nodes=[LISTED, OTHER])
    assert offer.free is None


def test_a_node_that_is_too_small_has_nothing_free_also_without_a_report() -> None:
    [offer] = offers(Resources.model_validate({"memory": "30 GiB"}), usage={})
    assert (offer.free, "the job needs" in offer.wait_reason) == (0, True)


@pytest.mark.parametrize(
    ("need", "free", "reason"),
    [
        ({"gpu": 2}, 0, "1 of 2 T4 GPUs of 1 Ray node are free, the job needs 2 on one node"),
        ({}, 3, ""),
        ({"cpus": 2}, 1, ""),
        ({"gpu": 1, "cpus": 4}, 0, "and other resources of the nodes (CPUs, memory) are in use"),
        ({"memory": "30 GiB"}, 0, "other resources"),
        ({"memory": "10 GiB"}, 2, ""),
    ],
)
def test_free_counts_gpus_cpus_and_memory_of_each_node(need: dict[str, Any], free: int, reason: str) -> None:
    [offer] = offers(Resources.model_validate(need))
    assert offer.free == free
    assert reason in offer.wait_reason


def test_equal_nodes_are_one_offer_and_dead_nodes_are_none() -> None:
    dead = {**LISTED, "node_id": "d", "state": "DEAD"}
    other = {**LISTED, "node_id": "o", "resources_total": {"CPU": 8.0, "memory": 2.0**33}}
    usage = {**IDLE, **USAGE, "o": {}}
    found = offers(GPU, usage=usage, nodes=[LISTED, OTHER, dead, other])
    assert [(offer.name, offer.gpu_count, offer.free) for offer in found] == [
        ("8cpu", 0, 0),
        ("2xT4-4cpu", 2, 3),
    ]


def test_the_price_is_that_of_the_gpus_of_the_job() -> None:
    options = RayOptions(address=ADDRESS, price_microusd_per_hour=5, gpu_prices=("a100=9", "t4 = 70"))
    assert offers(Resources.model_validate({"gpu": 2}), options)[0].price_microusd_per_hour == 140


def test_a_job_without_gpus_has_the_general_price_also_on_a_node_with_gpus() -> None:
    options = RayOptions(address=ADDRESS, price_microusd_per_hour=5, gpu_prices=("t4=70",))
    assert offers(Resources(), options)[0].price_microusd_per_hour == 5


@pytest.mark.parametrize(
    ("listed", "usage"),
    [
        ({**LISTED, "labels": ["a"]}, USAGE),
        (LISTED, {LISTED["node_id"]: ["a"]}),
        ({**LISTED, "resources_total": {"CPU": 4, "GPU": 10**400, "memory": "much"}}, USAGE),
    ],
)
def test_a_node_with_parts_of_another_form_is_no_error(listed: dict[str, Any], usage: Any) -> None:
    [node] = parse_nodes([listed], usage)
    assert node.cpus == 4
