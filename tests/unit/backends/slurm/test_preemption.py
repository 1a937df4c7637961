"""Which jobs Slurm may preempt, by what scontrol and sacctmgr print."""

from dataclasses import replace

import pytest
from tests.unit.backends.slurm import recorded

from anygpu.backends.slurm.offers import node_groups
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import parse_partitions
from anygpu.backends.slurm.preemption import (
    BY_QOS,
    BY_TIER,
    QosPreemption,
    mark_preemptible,
    parse_qos_preemption,
)
from anygpu.backends.slurm.queries import parse_facts

QUALITIES = "normal||cluster\nscavenger||requeue\nurgent|normal,scavenger|cluster\nfair||cancel,within\n"
DEFAULTS = "vision|\nspeech|scavenger\n"


def partition(name: str, tier: int, mode: str, nodes: str = "n[1-3]") -> str:
    return f"PartitionName={name} Nodes={nodes} PriorityTier={tier} PreemptMode={mode} State=UP\n"


def preemptible(text: str, preempt_type: str = BY_TIER) -> list[str]:
    return [
        each.name
        for each in mark_preemptible(parse_partitions(text), preempt_type).values()
        if each.preemptible
    ]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("OFF", []),
        ("GANG", []),
        ("REQUEUE", ["low"]),
        ("CANCEL", ["low"]),
        ("GANG,SUSPEND", ["low"]),
        ("WITHIN,REQUEUE", ["low"]),
    ],
)
def test_the_mode_of_a_partition_with_a_lower_tier_counts(mode: str, expected: list[str]) -> None:
    assert preemptible(partition("high", 10, "REQUEUE") + partition("low", 1, mode)) == expected


def test_partitions_of_the_same_tier_do_not_preempt_each_other() -> None:
    assert preemptible(partition("a", 1, "REQUEUE") + partition("b", 1, "REQUEUE")) == []


def test_only_partitions_with_the_same_nodes_preempt_each_other() -> None:
    low = partition("low", 1, "REQUEUE", "n[1-3]")
    assert preemptible(low + partition("high", 10, "REQUEUE", "m[1-9]")) == []
    assert preemptible(low + partition("high", 10, "REQUEUE", "n[3-9]")) == ["low"]


@pytest.mark.parametrize("preempt_type", ["preempt/none", "(null)"])
def test_without_preemption_the_mode_of_a_partition_means_nothing(preempt_type: str) -> None:
    assert preemptible(partition("high", 10, "REQUEUE") + partition("low", 1, "REQUEUE"), preempt_type) == []


def test_with_an_unknown_type_the_mode_alone_counts() -> None:
    text = partition("high", 10, "OFF") + partition("low", 1, "REQUEUE")
    assert preemptible(text, "") == preemptible(text, "preempt/own") == ["low"]


def test_a_partition_that_the_user_may_not_use_can_preempt() -> None:
    hidden = partition("owners", 20, "OFF")
    text = recorded.FACTS.replace("PreemptMode=OFF", "PreemptMode=REQUEUE")
    facts, more = (
        parse_facts(each, "gpu") for each in (text, text.replace("\x1ereserv", f"{hidden}\x1ereserv"))
    )
    for each, expected in ((facts, [False, True]), (more, [True, True])):
        groups = node_groups(each, SlurmOptions())
        assert [group.partition.preemptible for group in groups] == expected


@pytest.mark.parametrize(
    ("qos", "account", "expected"),
    [
        ("normal", "", True),
        ("scavenger", "", True),
        ("urgent", "", False),
        ("fair", "", True),  # its jobs preempt each other
        ("unknown", "", True),
        ("", "vision", True),  # no default of its own: normal
        ("", "speech", True),
        ("", "", True),
    ],
)
def test_the_quality_of_service_of_the_jobs_counts(qos: str, account: str, expected: bool) -> None:
    rules = parse_qos_preemption(QUALITIES, DEFAULTS, "REQUEUE")
    assert rules.is_preemptible(qos, account) is expected


def test_the_default_quality_of_service_counts_if_the_options_name_none() -> None:
    qualities = QUALITIES.replace("normal,scavenger", "scavenger")
    rules = parse_qos_preemption(qualities, DEFAULTS, "REQUEUE")
    assert [rules.is_preemptible("", account) for account in ("vision", "speech", "")] == [False, True, True]
    unknown = replace(rules, defaults=())
    assert unknown.is_preemptible("", "vision"), "the default could be any"


def test_jobs_of_one_quality_preempt_each_other_where_the_cluster_says_so() -> None:
    assert parse_qos_preemption("urgent||cluster\n", "", "WITHIN,REQUEUE").is_preemptible("urgent", "")
    assert parse_qos_preemption("urgent||cancel\n", "", "WITHIN,REQUEUE").is_preemptible("urgent", "")


def test_accounting_that_does_not_answer_means_that_jobs_may_be_preempted() -> None:
    assert QosPreemption().is_preemptible("normal", "")
    assert parse_qos_preemption("sacctmgr: error: no database\n", "", "REQUEUE").is_preemptible("normal", "")


@pytest.mark.parametrize(("qos", "expected"), [("urgent", False), ("normal", True)])
def test_with_preemption_by_quality_partitions_do_not_matter(qos: str, expected: bool) -> None:
    text = recorded.FACTS.replace(BY_TIER, BY_QOS) + f"\x1equalities\n{QUALITIES}\x1edefaults\n{DEFAULTS}"
    groups = node_groups(parse_facts(text, "gpu"), SlurmOptions(qos=qos))
    assert {group.partition.preemptible for group in groups} == {expected}
