"""From the status of an SSH host, build its offer, a summary for users, and a list of what it lacks."""

import math
from collections.abc import Mapping
from typing import Any

from anygpu.backends.contract import AccountStatus, HostGpu, HostReport
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
        f"{facts['cpus']} CPUs",
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


def build_offer(
    host: SshHost, status: HostStatus | None, need: Resources, *, backend: str, options: SshOptions
) -> Offer:
    facts = status.facts if status else {}
    cards = facts.get("gpus", [])
    free, reason = free_slots(host, status, need)
    return Offer(
        backend=backend,
        name=host.name,
        gpu_kind=cards[0]["kind"] if cards else "",
        gpu_count=len(cards),
        gpu_memory_gib=min((card["memory_gib"] for card in cards), default=0),
        cpus=facts.get("cpus", 0),
        memory_gib=facts.get("memory_gib", 0),
        disk_gib=math.floor(facts.get("disk_free_gib", 0)),
        price_microusd_per_hour=options.price_microusd_per_hour,
        free=free,
        own=True,
        wait_reason=reason,
        containers=any(facts.get("tools", {}).get(tool) for tool in ("docker", "podman")),
        lease_s=options.lease_s,
        shared=True,
        driver=cards[0].get("driver", "") if cards else "",
    )


def free_slots(host: SshHost, status: HostStatus | None, need: Resources) -> tuple[int, str]:
    """Return how many attempts with these resources could start now, and why none can ("" if one can)."""
    if status is None or host.problem:
        return 0, host.problem or f"{host.name} has not answered yet"
    gpus = gpu_count(need)
    what, count = ("GPU", gpus) if gpus else ("CPU slot", cpu_slot_count(need))
    free = len(status.facts["free_gpus"]) if gpus else status.facts["free_cpus"]
    of = len(status.facts["gpus"]) if gpus else status.facts["cpus"]
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
