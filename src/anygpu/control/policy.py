"""Limits, intervals and quotas of the control loop, with defaults. wiring/control.py applies the settings."""

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
    """Rules for sharing the organisation's own machines. Without quotas every project may use every slot.

    A slot is one GPU, or one CPU for jobs without GPUs.
    """

    quotas: Mapping[str, int] = field(default_factory=dict)  # slots, by `organisation/project` or `project`
    may_borrow: bool = True
    preempt: bool = True
    bands_slot_s: tuple[float, ...] = BANDS_GPU_S
    min_run_s: float = MIN_RUN_S
    starvation_s: float = STARVATION_S

    def quota(self, tenant: TenantKey) -> int | None:
        """Return how many slots (GPUs or CPUs) are guaranteed to a project, or None if it has no quota."""
        exact = self.quotas.get(f"{tenant.organisation}/{tenant.project}")
        return self.quotas.get(tenant.project) if exact is None else exact


def parse_quotas(texts: Iterable[str]) -> dict[str, int]:
    """Parse the quotas in the settings.

    Examples: `vision=4` for a project, `lab/speech=2` for a project of the organisation `lab`.
    """
    found: dict[str, int] = {}
    for text in texts:
        name, equals, count = (part.strip() for part in text.partition("="))
        if not (name and equals and count.isdecimal() and len(count) < 7):
            hint = "write project=slots or organisation/project=slots, such as vision=4"
            raise InvalidSpec([Problem("queue.quotas", text, "is not a quota of a project", hint)])
        found[name] = int(count)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPolicy:
    """Limits and intervals of the control loop, in seconds unless the name says otherwise."""

    own_organisation: str = "local"  # of the server's operator; only its jobs may run in place
    results_bytes: int = 10 * 1024**3  # new files of a copied working directory that are kept, per attempt
    results_files: int = 1000
    lease_s: float = 60  # an agent that cannot reach the server for this long stops
    grace_s: float = 10  # between SIGTERM and SIGKILL; also added to a lease before it counts as expired
    heartbeat_s: float = 5
    report_every_s: float = 0.2
    telemetry_every_s: float = 10
    probe_every_s: float = 10  # how often a healthy attempt is probed
    retry_interval_s: float = 0.5  # how often an attempt that is ending is probed, and failed work is retried
    probes_before_lost: int = 3  # least number of probes without a heartbeat before an attempt is lost
    claim_limit_s: float = (
        600  # from the launch to the agent's claim, without the machine's own wait and start
    )
    cancel_limit_s: float = 60  # from the cancellation to the agent's end report
    stop_limit_s: float = (
        600  # from the stop request to the agent's end report, including the upload of a checkpoint
    )
    absence_s: float = (
        60  # a machine missing from the provider's list for this long counts as gone; lists lag
    )
    max_launch_tries: int = 5  # launch calls with an unknown outcome before the attempt counts as lost
    retry_base_s: float = 1
    retry_max_s: float = 60
    reserve_after_s: float = (
        300  # after waiting this long, a job's slots are reserved: later jobs may not take them
    )
    sharing: SharingPolicy = field(default_factory=SharingPolicy)
    migration: MigrationPolicy = field(default_factory=MigrationPolicy)
    leader_ttl_s: float = 15
    poll_s: float = 10  # how often all live jobs are read again, in case a wake-up was lost
    sweep_every_s: float = 60
    sweep_grace_s: float = 30
    damaged_grace_s: float = 3600  # after this time the machines of a damaged job are ended
    offers_wait_s: float = 2  # how long a pass waits for offers; later answers are used in the next pass
    offers_age_s: float = 120  # how long the last answer of a silent backend is used
    account_age_s: float = 300  # how long the result of an account check is used
    cooldown_base_s: float = 5  # pause after a refused launch; doubles with each refusal in a row
    cooldown_max_s: float = 300
    explain_after_s: float = 1  # delay before offers are compared for a job that was scheduled without
    paid_timeout_s: float = 25_200  # time limit on paid machines for jobs without one
    allow_paid: bool = False  # for jobs whose spec does not say whether they may use paid machines
    max_paid_attempts: int = 3  # per organisation, at the same time
    min_useful_s: float = 60  # a launch must be able to pay for this much work and for stopping
    stop_allowance_s: float = 120  # reserved from the budget for saving and stopping
    end_allowance_s: float = 20  # reserved from the budget for terminating the machine
    handover_s: float = 300  # reserved before a machine's maximum lifetime ends, for saving and stopping
    spot_check_every_s: float = 600  # how often the spot policy is asked for jobs with a deadline
    meter_every_s: float = 30  # first interval between meter readings; doubles each time
    meter_for_s: float = 172_800
    meter_tolerance_microusd: int = 10

    @property
    def min_run_s(self) -> int:
        """The time that the budget of a job must pay for on an offer, in seconds."""
        return round(self.min_useful_s + self.stop_allowance_s)

    def time_limit_s(self, spec: JobSpec, offer: Offer) -> float | None:
        """Return the time limit of a job on this offer in seconds, or None if the job has no limit."""
        own = spec.limits.timeout_s
        return self.paid_timeout_s if own is None and offer.is_paid else own

    def max_run_s(self, spec: JobSpec, offer: Offer) -> float | None:
        """Return the longest time for which an attempt may need its machine, or None without a limit."""
        limits = (self.time_limit_s(spec, offer), offer.max_run_s)
        return min((limit for limit in limits if limit is not None), default=None)

    def stop_limit_for(self, reason: str) -> float:
        """Return the longest time from a stop request to the agent's end report.

        The limit is shorter for the reasons `deadline` and `cheaper`: a job with a deadline cannot wait for
        slow uploads.
        """
        return self.stop_allowance_s if reason in ("deadline", "cheaper") else self.stop_limit_s

    @property
    def max_decision_delay_s(self) -> float:
        """The longest time until the next decision about a job.

        The time includes a takeover by another control process.
        """
        return self.leader_ttl_s + 2 * self.poll_s + self.offers_wait_s

    @property
    def max_sweep_delay_s(self) -> float:
        """The longest time until a late machine is ended and its cost is recorded.

        A late machine is one that appeared after its attempt had ended.
        """
        return 2 * self.sweep_every_s + self.sweep_grace_s

    def lease_for(self, offer: Offer) -> float:
        """Return for how many seconds an agent on this offer may run its job without contact with the server."""
        return offer.lease_s or self.lease_s

    def silence_limit_for(self, offer: Offer) -> float:
        """Return the time without a heartbeat after which the agent has certainly stopped by itself."""
        return self.lease_for(offer) + self.grace_s
