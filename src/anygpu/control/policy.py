"""Limits, intervals and quotas of the control loop. All are settings; these are their defaults."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from anygpu.errors import InvalidSpec, Problem
from anygpu.events.offers import Offer
from anygpu.events.slots import TenantKey
from anygpu.plan.fair_share import BANDS_GPU_S, MIN_RUN_S, STARVATION_S
from anygpu.plan.offers.migration import MigrationPolicy
from anygpu.spec.jobspec import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPolicy:
    """Without quotas everybody borrows: nothing is guaranteed, and nothing stays idle."""

    quotas: Mapping[str, int] = field(default_factory=dict)  # slots, by `organisation/project` or `project`
    may_borrow: bool = True
    preempt: bool = True
    bands_slot_s: tuple[float, ...] = BANDS_GPU_S
    min_run_s: float = MIN_RUN_S
    starvation_s: float = STARVATION_S

    def quota(self, tenant: TenantKey) -> int | None:
        """None where no quota is named."""
        exact = self.quotas.get(f"{tenant.organisation}/{tenant.project}")
        return self.quotas.get(tenant.project) if exact is None else exact


def parse_quotas(texts: Iterable[str]) -> dict[str, int]:
    """From settings: `vision=4`, `lab/speech=2`."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, count = (part.strip() for part in text.partition("="))
        if not (name and equals and count.isdecimal() and len(count) < 7):
            hint = "write project=slots, or organisation/project=slots"
            raise InvalidSpec([Problem("queue.quotas", text, "is not a quota like vision=4", hint)])
        found[name] = int(count)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPolicy:
    """How patient the supervisor is."""

    lease_s: float = 60  # an agent that cannot renew this long stops by itself
    grace_s: float = 10  # between SIGTERM and SIGKILL, and on top of a lease before it counts as run out
    heartbeat_s: float = 5
    report_every_s: float = 0.2
    telemetry_every_s: float = 10
    probe_every_s: float = 10  # how often a healthy attempt is looked at
    retry_interval_s: float = 0.5  # how often an attempt that is ending is looked at
    probes_before_lost: int = 3  # silence alone is not death
    claim_limit_s: float = 600  # from launched to the agent's first word
    cancel_limit_s: float = 60  # from cancel to the agent's last word
    stop_limit_s: float = 600  # from stop to the agent's last word: uploading a checkpoint takes time
    absence_s: float = 60  # provider lists lag: not being listed this long counts as gone
    max_launch_tries: int = 5  # calls with an unknown outcome before the attempt is given up
    retry_base_s: float = 1
    retry_max_s: float = 60
    reserve_after_s: float = 300  # a job that waited this long is not overtaken any more
    sharing: SharingPolicy = field(default_factory=SharingPolicy)
    migration: MigrationPolicy = field(default_factory=MigrationPolicy)
    leader_ttl_s: float = 15
    poll_s: float = 10  # the safety net under the wake-ups
    sweep_every_s: float = 60
    sweep_grace_s: float = 30
    offers_wait_s: float = 2  # a backend that answers later is heard in the next pass
    offers_age_s: float = 120  # how long the last answer of a backend that has not answered again is used
    account_age_s: float = 300  # how long a provider's word on balance and credentials is used
    cooldown_base_s: float = (
        5  # a place that refused a launch is left alone this long, then twice as long, ...
    )
    cooldown_max_s: float = 300
    explain_after_s: float = 1  # what was placed as it came is compared after this, if it is still there
    paid_timeout_s: float = 25_200  # a job that names no time limit has this one on machines that cost
    max_paid_attempts: int = 3  # of one organisation, in flight at a time
    min_useful_s: float = 60  # a launch that cannot afford this much work and its stop is not made
    stop_allowance_s: float = 120  # before the budget is used up: for saving and stopping
    end_allowance_s: float = 20  # before the budget is used up: for ending the machine, saved or not
    handover_s: float = 300  # before the end of a machine's longest life: for saving and stopping
    spot_check_every_s: float = 600  # how often a job with a deadline asks how spot is doing
    meter_every_s: float = 30  # then twice as long, ...: how often a provider is asked what it charged
    meter_for_s: float = 172_800
    meter_tolerance_microusd: int = 10

    def time_limit_s(self, spec: JobSpec, offer: Offer) -> float | None:
        """How long the job may train when it runs there."""
        own = spec.limits.timeout_s
        return self.paid_timeout_s if own is None and offer.is_paid else own

    def stop_limit_for(self, reason: str) -> float:
        """From stop to the agent's last word. A deadline has no time for a slow upload: it counts on none."""
        return self.stop_allowance_s if reason in ("deadline", "cheaper") else self.stop_limit_s

    @property
    def max_decision_delay_s(self) -> float:
        """The next decision about a job is made after this long at the latest, by this process or its successor."""
        return self.leader_ttl_s + 2 * self.poll_s + self.offers_wait_s

    @property
    def max_sweep_delay_s(self) -> float:
        """A machine that turned up after its attempt was over is ended, and on the ledger, after this long."""
        return 2 * self.sweep_every_s + self.sweep_grace_s

    def lease_for(self, offer: Offer) -> float:
        """How long an agent there may be out of reach before it stops by itself."""
        return offer.lease_s or self.lease_s

    def silence_limit_for(self, offer: Offer) -> float:
        """After this much silence the agent has stopped by itself, whatever became of it."""
        return self.lease_for(offer) + self.grace_s
