"""What Slurm prints is read without trust in names."""

import pytest
from tests.unit.backends.slurm import recorded

from anygpu.backends.slurm.offers import missing_partitions
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import (
    MAX_HOSTS,
    expand_hosts,
    parse_accounting,
    parse_duration,
    parse_exit,
    parse_gres,
    parse_nodes,
    parse_partitions,
    parse_queue,
    parse_start_time,
    split_sections,
)
from anygpu.backends.slurm.queries import facts_program, parse_facts


def test_the_queue_has_every_field_of_each_job() -> None:
    jobs = {job.id: job for job in parse_queue(recorded.QUEUE)}
    assert sorted(jobs) == [1, 3, 4, 5, 6, 7]
    assert (jobs[1].state, jobs[1].comment, jobs[1].name) == ("COMPLETED", "anygpu:abc", "anygpu-x-1")
    assert (jobs[1].started_s, jobs[1].ended_s) == (1794996028, 1794996129)
    assert (jobs[3].exit_code, jobs[3].signal) == (3, 0)
    assert (jobs[4].state, jobs[4].restarts, jobs[4].ended_s) == ("PENDING", 1, None)
    assert (jobs[5].nodes, jobs[5].reason, jobs[5].comment) == ("n1", "", "x y|z")
    assert jobs[5].name == "we ird|na'me"


def test_a_line_that_is_cut_or_forged_is_skipped() -> None:
    cut = "9\x1fRUNNING\x1f0\n"
    forged = "x\x1fRUNNING" + "\x1f0" * 10 + "\n"
    assert [*parse_queue(cut + forged)] == []
    assert [job.id for job in parse_queue(cut + recorded.QUEUE)] == [1, 3, 6, 4, 7, 5]


def test_control_characters_of_comments_and_reasons_become_visible() -> None:
    line = recorded.QUEUE.splitlines()[0].replace("anygpu:abc", "a\x1b[31mb")
    (job,) = parse_queue(line)
    assert job.comment == "a\\x1b[31mb"


def test_accounting_names_who_cancelled() -> None:
    jobs = {job.id: job for job in parse_accounting(recorded.ACCOUNTING)}
    assert (jobs[2].state, jobs[2].by, jobs[2].signal) == ("CANCELLED", "1001", 15)
    assert jobs[6].signal == 53
    assert jobs[8].ended_s is None


@pytest.mark.parametrize(
    ("text", "expected"), [("0:0", (0, 0)), ("3:0", (3, 0)), ("768", (3, 0)), ("9", (0, 9)), ("?", (0, 0))]
)
def test_exit_codes_of_both_forms(text: str, expected: tuple[int, int]) -> None:
    assert parse_exit(text) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("infinite", None),
        ("UNLIMITED", None),
        ("30", 1800),
        ("30:00", 1800),
        ("1:00:00", 3600),
        ("1-00:00:00", 86_400),
        ("2-12", 216_000),
        ("1-12:30", 131_400),
        ("soon", None),
        ("1:2:3:4", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu:a100:4(S:0-1),gpu:t4:2", {"a100": 4, "t4": 2}),
        ("gpu:2", {"": 2}),
        ("gpu:a100:3(IDX:0-2),mps:100", {"a100": 3}),
        ("(null)", {}),
        ("gpu:$(rm -rf):4", {}),
        ("gpu:nvidia_a100-sxm4-80gb:8(S:0,1)", {"nvidia_a100-sxm4-80gb": 8}),
    ],
)
def test_generic_resources(text: str, expected: dict[str, int]) -> None:
    assert parse_gres(text, "gpu") == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("gpu[07-09,12],login", ["gpu07", "gpu08", "gpu09", "gpu12", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("(null)", []),
        ("n[x-y]", ["n[x-y]"]),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert [*expand_hosts(text)] == names


def test_a_huge_list_of_hosts_ends() -> None:
    assert len([*expand_hosts("n[0-9]" * 4 + "[0-999999999]")]) == MAX_HOSTS


def test_partitions_with_unsafe_names_are_left_out() -> None:
    text = split_sections(recorded.FACTS)["nodes"].replace("preemptible", "a b;c")
    assert {node.partition for node in parse_nodes(text, "gpu")} == {"gpu"}
    line = "PartitionName=$(x) State=UP\nPartitionName=ok State=DOWN MaxTime=30:00\n"
    (partition,) = parse_partitions(line)
    assert (partition.name, partition.max_time_s, partition.problem) == (
        "ok",
        1800,
        "the partition ok is DOWN",
    )


def test_a_partition_has_what_preemption_depends_on() -> None:
    gpu, preemptible = parse_partitions(split_sections(recorded.FACTS)["partitions"])
    assert (gpu.preempt_mode, gpu.tier, gpu.nodes) == ("OFF", 10, "n[1-3]")
    assert (preemptible.preempt_mode, preemptible.tier, preemptible.nodes) == ("REQUEUE", 1, "n[1-2]")


def test_the_facts_of_a_cluster() -> None:
    facts = parse_facts(recorded.FACTS, "gpu")
    assert (facts.now_s, facts.root, facts.version) == (1794996400, "/home/me/.anygpu/slurm", "22.05.8")
    assert facts.kill_wait_s == 3
    assert [node.is_usable for node in facts.nodes] == [True, True, True, True, False]
    assert facts.partitions["preemptible"].preemptible
    assert not facts.partitions["gpu"].preemptible
    assert facts.qos_preemption is None
    assert (facts.partitions["preemptible"].max_time_s, facts.partitions["gpu"].max_time_s) == (86_400, None)
    assert facts.reservations[0].maintenance
    assert facts.reservations[0].nodes == {"n1", "n2"}


def test_hidden_partitions_are_used_if_they_are_named() -> None:
    program = facts_program("~/.anygpu", ("gpu", "owners", "closed"))
    assert "-p gpu,owners,closed" in program
    assert " -p " not in facts_program("~/.anygpu")
    sections = split_sections(recorded.FACTS)
    line = sections["nodes"].splitlines()[1]
    named = [
        line,
        line.replace("gpu*", "owners"),
        line.replace("gpu*", "closed"),
    ]  # the last is for another group
    partitions = "PartitionName=owners Hidden=YES State=UP\nPartitionName=closed Hidden=NO State=UP\n"
    added = "\n".join(("\x1enamed", *named, "\x1epartitions", partitions))
    text = recorded.FACTS.replace("\x1epartitions\n", added)
    facts = parse_facts(text, "gpu")
    assert [(node.partition, node.name) for node in facts.nodes[5:]] == [("owners", "n1")]
    assert missing_partitions(facts, SlurmOptions(partitions=("gpu", "owners", "closed"))) == ["closed"]


def test_an_expected_start() -> None:
    assert parse_start_time(recorded.STARTS) == 1794999999
    assert parse_start_time(recorded.REFUSED) is None
