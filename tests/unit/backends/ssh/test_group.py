"""Several hosts for one attempt: the offer of the group, the names of the nodes, and their states as one."""

from dataclasses import replace

from anygpu.backends.contract import LaunchRequest
from anygpu.backends.ssh.group import (
    attempt_handles,
    find_nodes,
    free_hosts,
    group_offers,
    node_handles,
)
from anygpu.backends.ssh.hosts import HostStatus
from anygpu.events.offers import Handle, Offer
from anygpu.spec.load import from_mapping
from anygpu.spec.sections import Resources

CPU = Offer(backend="lab", name="a", cpus=8, memory_gib=32, disk_gib=90, free=2, own=True)
T4 = replace(CPU, name="b", gpu_kind="T4", gpu_count=2, gpu_memory_gib=16, free=1)
FULL = replace(T4, name="c", free=0, wait_reason="0 of 2 GPUs of c are free, the job needs 1")
SILENT = Offer(backend="lab", name="d", free=0, wait_reason="d has not answered yet", own=True)


def need(**fields: object) -> Resources:
    return from_mapping({"script": "t.py", "resources": {"nodes": 2, **fields}}).resources


def test_hosts_with_the_same_gpu_are_one_offer_of_the_smallest() -> None:
    small = replace(T4, name="e", gpu_count=1, cpus=4)
    (offer, _) = group_offers([T4, FULL, small, CPU], need(gpu=1))
    assert (offer.name, offer.max_nodes, offer.free, offer.gpu_count, offer.cpus) == ("group T4", 3, 2, 1, 4)
    assert offer.wait_reason == FULL.wait_reason
    (without_gpus,) = group_offers([T4, CPU], need())
    assert (without_gpus.name, without_gpus.max_nodes, without_gpus.free) == ("group", 2, 2)


def test_hosts_that_are_too_small_are_left_out() -> None:
    (offer,) = group_offers([CPU, replace(CPU, name="x", cpus=2)], need(cpus=4))
    assert (offer.max_nodes, offer.cpus) == (1, 8)


def test_a_host_that_does_not_answer_may_be_large_enough_but_is_not_free() -> None:
    (offer,) = group_offers([CPU, SILENT], need())
    assert (offer.max_nodes, offer.free, offer.cpus) == (2, 1, 8)
    assert "d has not answered" in offer.wait_reason
    (unknown,) = group_offers([SILENT, replace(SILENT, name="f")], need())
    assert (unknown.max_nodes, unknown.free) == (2, 0)


def gang(image: str = "", **fields: object) -> LaunchRequest:
    return LaunchRequest(
        name="x-1",
        job_id="x",
        attempt=1,
        ticket="",
        agent_url="",
        resources=need(**fields),
        nodes=2,
        image=image,
    )


def test_a_node_starts_only_on_a_host_that_satisfies_the_job() -> None:
    t4 = replace(T4, memory_gib=64, containers=True)
    small = replace(t4, name="c", memory_gib=8, containers=False)
    offers = {
        "c": [small],
        "a": [t4],
        "full": [replace(t4, free=0)],
        "other": [replace(t4, gpu_kind="L4")],
        "mixed": [replace(t4, gpu_kind="L4"), t4],
    }
    assert free_hosts(offers, gang(gpu=1, memory="32GB"), "T4") == ["a", "mixed"]
    assert free_hosts(offers, gang(gpu=1, cpus=9), "T4") == []
    assert free_hosts(offers, gang(gpu=1, disk="98GB"), "T4") == []
    assert free_hosts(offers, gang(gpu=1), "T4") == ["c", "a", "mixed"]
    assert free_hosts(offers, gang(image="torch:2", gpu=1), "T4") == ["a", "mixed"]
    assert free_hosts(offers, gang(memory="32GB"), "") == ["a", "other", "mixed"]


def test_an_attempt_on_several_hosts_is_listed_once_by_its_name() -> None:
    places = [("x-1", "a"), ("x-1-n1", "b"), ("y-1", "c"), ("z-2-n3", "a")]
    assert attempt_handles(places) == [
        Handle(name="x-1"),
        Handle(name="y-1", native={"box": "c"}),
        Handle(name="z-2"),
    ]
    statuses = {"a": HostStatus(0, {"names": ["x-1", "z-2"]}), "b": HostStatus(0, {"names": ["x-1-n1"]})}
    assert find_nodes("x-1", statuses) == {0: "a", 1: "b"}
    assert [each.name for each in node_handles(Handle(name="x", native={"hosts": ["a", "b"]}))] == [
        "x",
        "x-n1",
    ]
