"""Offers and summaries of SSH hosts."""

from typing import Any

import pytest

from anygpu.backends.ssh.hosts import HostStatus, SshHost
from anygpu.backends.ssh.offers import (
    account_status,
    build_offers,
    cpu_slot_count,
    describe_host,
    missing_requirements,
    report_host,
)
from anygpu.backends.ssh.offers import gpu_count as count_gpus
from anygpu.backends.ssh.options import SshOptions
from anygpu.spec.sections import Gpu, Resources

CARD = {"uuid": "GPU-1", "kind": "NVIDIA L4", "memory_gib": 22.5, "driver": "550.54"}

FACTS = {
    "gpus": [CARD, {**CARD, "uuid": "GPU-2"}],
    "gpu_problem": "",
    "cpus": 8,
    "memory_gib": 31.0,
    "disk_free_gib": 120.5,
    "python": "3.11.2",
    "tools": {"uv": True, "docker": False, "podman": True},
    "venv": True,
    "free_gpus": ["GPU-2"],
    "free_cpus": 3,
    "names": ["anygpu-1"],
}

ONE, TWO = (Resources(gpu=Gpu(count=count)) for count in (1, 2))


class CheckedHost(SshHost):
    """What an offer needs to know of a box."""

    name = "lab"

    def __init__(self, problem: str = "") -> None:
        self.problem = problem


def test_an_offer_has_the_hosts_hardware_and_free_slots() -> None:
    options = SshOptions(host="lab", price_microusd_per_hour=7, interconnect="infiniband")
    (offer,) = build_offers(CheckedHost(), HostStatus(0, FACTS), ONE, backend="lab", options=options)
    assert (offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.free) == ("NVIDIA L4", 2, 22.5, 1)
    assert (offer.driver, offer.interconnect) == ("550.54", "infiniband")
    assert (offer.price_microusd_per_hour, offer.lease_s, offer.containers) == (7, 86_400, True)


@pytest.mark.parametrize(("relay", "lease_s"), [("", 60), ("directory", 180), ("storage", 180)])
def test_agents_behind_a_relay_have_time_for_its_messages(relay: Any, lease_s: float) -> None:
    options = SshOptions(host="lab", lease_s=60, relay=relay)
    (offer,) = build_offers(CheckedHost(), HostStatus(0, FACTS), ONE, backend="lab", options=options)
    assert offer.lease_s == lease_s


@pytest.mark.parametrize(
    ("need", "trouble", "free", "reason"),
    [
        (Resources(), "", 3, ""),
        (Resources(cpus=2), "", 1, ""),
        (TWO, "", 0, "1 of 2 GPUs of lab are free, the job needs 2"),
        (ONE, "lab is off", 0, "lab is off"),
    ],
)
def test_an_offer_gives_the_reason_to_wait(need: Resources, trouble: str, free: int, reason: str) -> None:
    (offer,) = build_offers(
        CheckedHost(trouble), HostStatus(0, FACTS), need, backend="lab", options=SshOptions(host="lab")
    )
    assert (offer.free, offer.wait_reason) == (free, reason)


def test_a_host_with_two_gpu_models_makes_two_offers() -> None:
    titan = {"uuid": "GPU-3", "kind": "NVIDIA TITAN V", "memory_gib": 12.0, "driver": "550.54"}
    facts = {**FACTS, "gpus": [*FACTS["gpus"], titan], "free_gpus": ["GPU-3"]}  # type: ignore[misc]
    options = SshOptions(host="lab")
    offers = build_offers(CheckedHost(), HostStatus(0, facts), ONE, backend="lab", options=options)
    assert [(each.name, each.gpu_count, each.gpu_memory_gib, each.free) for each in offers] == [
        ("lab", 2, 22.5, 0),
        ("lab/TITAN-V", 1, 12.0, 1),
    ]
    assert offers[0].wait_reason == "0 of 2 L4 GPUs of lab are free, the job needs 1"
    (whole,) = build_offers(CheckedHost(), HostStatus(0, facts), Resources(), backend="lab", options=options)
    assert (whole.name, whole.free) == ("lab", 3)


def test_a_host_that_never_answered_offers_nothing_with_the_reason() -> None:
    (offer,) = build_offers(CheckedHost(), None, ONE, backend="lab", options=SshOptions(host="lab"))
    assert (offer.free, offer.wait_reason) == (0, "lab has not answered yet")


def test_a_report_of_a_host_tells_which_gpus_are_free() -> None:
    report = report_host(CheckedHost(), HostStatus(0, FACTS))
    assert (report.offer, report.problem, report.cpus, report.free_cpus) == ("lab", "", 8, 3)
    assert [(gpu.uuid, gpu.kind, gpu.free) for gpu in report.gpus] == [
        ("GPU-1", "NVIDIA L4", False),
        ("GPU-2", "NVIDIA L4", True),
    ]


def test_a_report_of_a_host_that_does_not_answer_says_why() -> None:
    assert report_host(CheckedHost("lab is off"), HostStatus(0, FACTS)).problem == "lab is off"
    assert report_host(CheckedHost(), None).problem == "lab has not answered yet"


def test_a_job_with_gpus_takes_no_cpu_slots() -> None:
    assert (count_gpus(TWO), cpu_slot_count(TWO)) == (2, 0)
    assert (count_gpus(Resources()), cpu_slot_count(Resources(cpus=1.5))) == (0, 2)


def test_a_host_is_summarised_in_one_line() -> None:
    assert missing_requirements(FACTS) == []
    assert describe_host(FACTS) == (
        "2 × NVIDIA L4 22.5 GiB (driver 550.54), 8 CPUs, 31 GiB memory, 120.5 GiB free disk, Python 3.11.2"
    )


def test_missing_requirements_tell_what_to_do() -> None:
    bare = {
        **FACTS,
        "gpus": [],
        "gpu_problem": "nvidia-smi is not installed",
        "disk_free_gib": 1.5,
        "tools": {"uv": False},
        "venv": False,
    }
    driver, room, environments = missing_requirements(bare)
    assert "install its driver" in driver
    assert "only 1.5 GiB free" in room
    assert "install uv" in environments


def test_the_account_is_valid_when_all_hosts_answer() -> None:
    assert account_status({"lab": HostStatus(0, FACTS)}).valid
    found = account_status({"lab": HostStatus(0, FACTS), "old": "old does not answer"})
    assert not found.valid
    assert found.message.splitlines()[1] == "old: old does not answer"
