"""From the status of an SSH host, build its offer, a summary for users, and a list of what it lacks."""

import math
from collections.abc import Mapping
from typing import Any

from anygpu.backends.contract import AccountStatus, HostGpu, HostReport
from anygpu.backends.host_gpus import GpuModelGroup, group_gpus
from anygpu.backends.relay.contract import lease_with_relay
from anygpu.backends.ssh.hosts import HostStatus, SshHost
from anygpu.backends.ssh.options import SshOptions
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

MIN_DISK_GIB = 5.0
GET_UV = "curl -LsSf https://astral.sh/uv/install.sh | sh"


def missing_requirements(facts: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each requirement that the host lacks."""
    sentences = [_missing_gpu(facts), _missing_disk(facts), _missing_installer(facts)]
    return [sentence for sentence in sentences if sentence]


def _missing_gpu(facts: Mapping[str, Any]) -> str:
    if facts["gpus"]:
        return ""
    reason = facts["gpu_problem"] or "nvidia-smi lists none"
    return f"no GPU: {reason}. If the host has an NVIDIA GPU, install its driver; jobs without GPUs can run"


def _missing_disk(facts: Mapping[str, Any]) -> str:
    free_gib = facts["disk_free_gib"]
    if free_gib >= MIN_DISK_GIB:
        return ""
    return f"only {free_gib:g} GiB free in the home directory: environments and checkpoints need {MIN_DISK_GIB:g} GiB"


def _missing_installer(facts: Mapping[str, Any]) -> str:
    if facts["tools"]["uv"] or facts["venv"]:
        return ""
    return f"requirements cannot be installed: install uv ({GET_UV}), or apt install python3-venv"


def describe_host(facts: Mapping[str, Any]) -> str:
    """Return one line that summarises the hardware and Python of a host."""
    kinds = [f"{card['kind']} {card['memory_gib']:g} GiB" for card in facts["gpus"]]
    cards = ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds))
    drivers = ", ".join(dict.fromkeys(card["driver"] for card in facts["gpus"]))
    parts = [
        f"{cards} (driver {drivers})" if cards else "no GPU",
        f"{facts['cpus']} CPU{'s' * (facts['cpus'] != 1)}",
        f"{facts['memory_gib']:g} GiB memory",
        f"{facts['disk_free_gib']:g} GiB free disk",
        f"Python {facts['python']}",
    ]
    return ", ".join(parts)


def gpu_count(need: Resources) -> int:
    return need.gpu.count if need.gpu else 0


def cpu_slot_count(need: Resources) -> int:
    """Return the number of CPUs to reserve for a job: 0 if it uses GPUs."""
    return 0 if gpu_count(need) else max(1, math.ceil(need.cpus or 1))


def build_offers(
    host: SshHost, status: HostStatus | None, need: Resources, *, backend: str, options: SshOptions
) -> list[Offer]:
    """Return one offer for each GPU model of the host. A job without GPUs gets one offer for the whole host."""
    groups = group_gpus(host.name, status.facts["gpus"] if status else [])
    return [
        _build_offer(host, status, need, group, backend=backend, options=options)
        for group in (groups if gpu_count(need) else groups[:1])
    ]


def _build_offer(
    host: SshHost,
    status: HostStatus | None,
    need: Resources,
    group: GpuModelGroup,
    *,
    backend: str,
    options: SshOptions,
) -> Offer:
    facts = status.facts if status else {}
    free, reason = free_slots(host, status, need, group)
    return Offer(
        backend=backend,
        name=group.offer_name,
        gpu_kind=group.kind,
        gpu_count=len(group.cards),
        gpu_memory_gib=group.memory_gib,
        cpus=facts.get("cpus", 0),
        memory_gib=facts.get("memory_gib", 0),
        disk_gib=math.floor(facts.get("disk_free_gib", 0)),
        price_microusd_per_hour=options.price_microusd_per_hour,
        free=free,
        own=True,
        wait_reason=reason,
        containers=any(facts.get("tools", {}).get(tool) for tool in ("docker", "podman")),
        lease_s=lease_with_relay(options.lease_s, options.relay),
        shared=True,
        interconnect=options.interconnect,
        driver=group.driver,
        answered=status is not None,
    )


def free_slots(
    host: SshHost, status: HostStatus | None, need: Resources, group: GpuModelGroup
) -> tuple[int, str]:
    """Return how many attempts with these resources could start now, and why none can ("" if one can).

    An attempt with GPUs uses those of the `group` only.
    """
    if status is None or host.problem:
        return 0, host.problem or f"{host.name} has not answered yet"
    gpus = gpu_count(need)
    what, count = (group.gpu_noun, gpus) if gpus else ("CPU slot", cpu_slot_count(need))
    free_gpus = set(status.facts["free_gpus"]).intersection(group.uuids)
    free = len(free_gpus) if gpus else status.facts["free_cpus"]
    of = len(group.cards) if gpus else status.facts["cpus"]
    reason = f"{free} of {of} {what}s of {host.name} are free, the job needs {count}"
    return free // count, "" if free >= count else reason


def report_host(host: SshHost, status: HostStatus | None) -> HostReport:
    """Describe a host for users: its GPUs, CPUs and memory, and why it does not answer, if so."""
    facts = status.facts if status else {}
    free = set(facts.get("free_gpus", ()))
    problem = host.problem if status is not None or host.problem else f"{host.name} has not answered yet"
    return HostReport(
        offer=host.name,
        problem=problem,
        cpus=facts.get("cpus", 0),
        free_cpus=facts.get("free_cpus", 0),
        memory_gib=facts.get("memory_gib", 0),
        gpus=tuple(
            HostGpu(
                uuid=card["uuid"],
                kind=card["kind"],
                memory_gib=card["memory_gib"],
                driver=card.get("driver", ""),
                free=card["uuid"] in free,
            )
            for card in facts.get("gpus", ())
        ),
    )


def account_status(statuses: Mapping[str, HostStatus | str]) -> AccountStatus:
    """Summarise the statuses of all hosts, for `anygpu backend check`.

    The account is valid if every host answers; the message has one line per host.
    """
    lines = [
        f"{name}: {status if isinstance(status, str) else _describe_status(status)}"
        for name, status in statuses.items()
    ]
    return AccountStatus(
        valid=all(isinstance(status, HostStatus) for status in statuses.values()), message="\n".join(lines)
    )


def _describe_status(status: HostStatus) -> str:
    return "; ".join((describe_host(status.facts), *missing_requirements(status.facts)))
