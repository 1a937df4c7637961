"""What a box offers, from what it said of itself."""

import math
from collections.abc import Mapping

from anygpu.backends.contract import Account
from anygpu.backends.ssh.boxes import Box, Look
from anygpu.backends.ssh.findings import lacking, summary
from anygpu.backends.ssh.options import Options
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources


def gpus_of(need: Resources) -> int:
    return need.gpu.count if need.gpu else 0


def cpus_of(need: Resources) -> int:
    """A job with GPUs takes them alone; one without takes CPU slots."""
    return 0 if gpus_of(need) else max(1, math.ceil(need.cpus or 1))


def offer_of(box: Box, look: Look | None, need: Resources, *, backend: str, options: Options) -> Offer:
    facts = look.facts if look else {}
    cards = facts.get("gpus", [])
    free, reason = free_for(box, look, need)
    return Offer(
        backend=backend,
        name=box.name,
        gpu_kind=cards[0]["kind"] if cards else "",
        gpu_count=len(cards),
        gpu_memory_gib=min((card["memory_gib"] for card in cards), default=0),
        cpus=facts.get("cpus", 0),
        memory_gib=facts.get("memory_gib", 0),
        disk_gib=math.floor(facts.get("disk_free_gib", 0)),
        price_microusd_per_hour=options.price_microusd_per_hour,
        free=free,
        wait_reason=reason,
        containers=any(facts.get("tools", {}).get(tool) for tool in ("docker", "podman")),
        lease_s=options.lease_s,
        driver=cards[0].get("driver", "") if cards else "",
    )


def free_for(box: Box, look: Look | None, need: Resources) -> tuple[int, str]:
    """How many such attempts could start now, and what a job would wait for if none."""
    if look is None or box.trouble:
        return 0, box.trouble or f"{box.name} has not answered yet"
    gpus = gpus_of(need)
    what, count = ("GPU", gpus) if gpus else ("CPU slot", cpus_of(need))
    free = len(look.facts["free_gpus"]) if gpus else look.facts["free_cpus"]
    of = len(look.facts["gpus"]) if gpus else look.facts["cpus"]
    reason = f"{free} of {of} {what}s of {box.name} are free, the job needs {count}"
    return free // count, "" if free >= count else reason


def account(looks: Mapping[str, Look | str]) -> Account:
    """Valid when every box answers; the words are for whoever has to repair one that does not."""
    lines = [f"{name}: {look if isinstance(look, str) else _words(look)}" for name, look in looks.items()]
    return Account(valid=all(isinstance(look, Look) for look in looks.values()), why="\n".join(lines))


def _words(look: Look) -> str:
    return "; ".join((summary(look.facts), *lacking(look.facts)))
