"""How projects share machines of one's own: the numbers of the queue's policy. docs/queue.md has the reasons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anygpu.errors import InvalidSpec, Problem
from anygpu.events.slots import Tenant
from anygpu.plan.fair_share import BANDS_GPU_S, MIN_RUN_S, STARVATION_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Without quotas everybody borrows: nothing is guaranteed, and nothing stays idle."""

    quotas: Mapping[str, int] = field(default_factory=dict)  # slots, by `organisation/project` or `project`
    may_borrow: bool = True
    preempt: bool = True
    bands_slot_s: tuple[float, ...] = BANDS_GPU_S
    runs_at_least_s: float = MIN_RUN_S
    starved_s: float = STARVATION_S

    def quota(self, tenant: Tenant) -> int | None:
        """None where no quota is named."""
        exact = self.quotas.get(f"{tenant.organisation}/{tenant.project}")
        return self.quotas.get(tenant.project) if exact is None else exact


def parsed_quotas(texts: Iterable[str]) -> dict[str, int]:
    """From settings: `vision=4`, `lab/speech=2`."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, count = (part.strip() for part in text.partition("="))
        if not (name and equals and count.isdecimal() and len(count) < 7):
            hint = "write project=slots, or organisation/project=slots"
            raise InvalidSpec([Problem("queue.quotas", text, "is not a quota like vision=4", hint)])
        found[name] = int(count)
    return found
