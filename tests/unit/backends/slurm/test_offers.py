"""Offers of a Slurm cluster, from recorded output."""

from dataclasses import replace

from tests.unit.backends.slurm import recorded

from anygpu.backends.slurm.offers import build_offer, free_slots, missing_partitions, node_groups, with_wait
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import Reservation
from anygpu.backends.slurm.queries import ClusterFacts, parse_facts
from anygpu.backends.slurm.waits import UNKNOWN_WAIT_S, ExpectedWait, read_answer
from anygpu.events.offers import Offer
from anygpu.spec.sections import Gpu, Resources

FACTS = parse_facts(recorded.FACTS, "gpu")
ONE_GPU = Resources(gpu=Gpu(count=1))


def offers(facts: ClusterFacts = FACTS, need: Resources = ONE_GPU, **options: object) -> list[Offer]:
    chosen = SlurmOptions.model_validate(options)
    return [
        build_offer(group, facts, need, backend="lab", options=chosen) for group in node_groups(facts, chosen)
    ]


def test_each_partition_and_kind_of_node_is_an_offer() -> None:
    gpu, preemptible = offers(gpu_prices=["T4=350000"])
    assert (gpu.name, gpu.gpu_kind, gpu.gpu_count, gpu.cpus, gpu.own) == ("gpu/t4x2", "T4", 1, 8, True)
    assert gpu.price_microusd_per_hour == 350_000
    assert (gpu.interruptible, preemptible.interruptible) == (False, True)
    assert (gpu.free, gpu.max_run_s, gpu.self_expires) == (None, 8_000 // 60 * 60, "max_duration")
    assert preemptible.max_run_s == 8_000 // 60 * 60
    assert [offer.name for offer in offers(partitions=["gpu"])] == ["gpu/t4x2"]


def test_an_offer_has_the_gpus_that_the_job_gets() -> None:
    counts = [offers(need=Resources(gpu=Gpu(count=count)))[0].gpu_count for count in (1, 2, 4)]
    assert counts == [1, 2, 2]
    assert offers(need=Resources())[0].gpu_count == 2


def test_agents_behind_a_relay_have_time_for_its_messages() -> None:
    assert [offer.lease_s for offer in offers(lease_s=60)] == [180, 180]
    assert [offer.lease_s for offer in offers(lease_s=60, relay="")] == [60, 60]
    assert [offer.lease_s for offer in offers(lease_s=600)] == [600, 600]


def test_without_a_reservation_the_partition_sets_the_longest_run() -> None:
    gpu, preemptible = offers(replace(FACTS, reservations=()))
    assert (gpu.max_run_s, gpu.self_expires, preemptible.max_run_s) == (None, "none", 86_400)
    assert [offer.max_run_s for offer in offers(replace(FACTS, reservations=()), max_run_s=3600)] == [
        3600,
        3600,
    ]


def test_a_reservation_of_some_nodes_changes_nothing() -> None:
    some = Reservation(name="r", start_s=FACTS.now_s + 60, end_s=FACTS.now_s + 120, nodes=frozenset({"n1"}))
    assert [offer.free for offer in offers(replace(FACTS, reservations=(some,)))] == [None, None]


def test_jobs_wait_for_the_end_of_a_reservation_that_begins_soon() -> None:
    soon = Reservation(
        name="maint",
        start_s=FACTS.now_s + 300,
        end_s=FACTS.now_s + 3600,
        nodes=frozenset({"n1", "n2"}),
        maintenance=True,
    )
    for offer in offers(replace(FACTS, reservations=(soon,))):
        assert offer.is_full
        assert "reserved for maintenance (maint) for the next 60 minutes" in offer.wait_reason


def test_drained_nodes_are_not_used() -> None:
    nodes = tuple(replace(node, state="drained") for node in FACTS.nodes)
    for offer in offers(replace(FACTS, nodes=nodes)):
        assert (offer.free, offer.wait_reason) == (
            0,
            f"no node of {offer.name} can start jobs (their state: drained)",
        )


def test_free_slots_count_gpus_and_cpus() -> None:
    group = node_groups(FACTS, SlurmOptions())[0]
    assert free_slots(group, ONE_GPU) == 3
    assert free_slots(group, Resources(gpu=Gpu(count=2))) == 1
    assert free_slots(group, Resources(cpus=8)) == 1
    assert free_slots(group, Resources()) == 15
    assert free_slots(group, Resources(nodes=2)) == 1
    assert free_slots(group, Resources(nodes=3)) == 0
    assert [offer.max_nodes for offer in offers(need=Resources(nodes=2))] == [2, 2]


def test_free_slots_count_the_memory_that_is_left() -> None:
    nodes = tuple(replace(node, memory_used_mib=6_000) for node in FACTS.nodes)
    group = node_groups(replace(FACTS, nodes=nodes), SlurmOptions())[0]
    assert free_slots(group, Resources(memory_gib=1)) == 2  # of 2000 MiB on each of two nodes
    assert free_slots(group, Resources(memory_gib=2)) == 0
    assert free_slots(group, ONE_GPU) == 3
    full = tuple(replace(node, memory_used_mib=node.memory_mib) for node in FACTS.nodes)
    assert free_slots(node_groups(replace(FACTS, nodes=full), SlurmOptions())[0], ONE_GPU) == 0
    unknown = tuple(replace(node, memory_mib=0) for node in FACTS.nodes)
    assert free_slots(node_groups(replace(FACTS, nodes=unknown), SlurmOptions())[0], ONE_GPU) == 3


def test_idle_nodes_keep_no_wait_unless_slurm_says_otherwise() -> None:
    offer = offers()[0]
    no_answer = ExpectedWait(UNKNOWN_WAIT_S, may_be_kept=False)
    assert with_wait(offer, no_answer, is_idle=True) == offer
    assert with_wait(offer, ExpectedWait(2.0), is_idle=True) == offer
    later = with_wait(offer, ExpectedWait(900.0), is_idle=True)
    assert (later.expected_wait_s, later.wait_reason) == (900.0, "no idle node can run the job")
    busy = with_wait(offer, no_answer, is_idle=False)
    assert (busy.expected_wait_s, busy.wait_reason) == (UNKNOWN_WAIT_S, "all its nodes are busy")


def test_missing_partitions_are_named() -> None:
    assert missing_partitions(FACTS, SlurmOptions(partitions=("gpu", "big"))) == ["big"]


def test_the_answer_of_a_test_submission() -> None:
    assert read_answer(recorded.STARTS, 1794999000).wait_s == 999
    assert "Requested node configuration is not available" in read_answer(recorded.REFUSED, 0).refused
    assert read_answer(recorded.NO_PARTITION, 0).refused.endswith("Invalid partition name specified")
    assert read_answer("", 0).wait_s == UNKNOWN_WAIT_S
