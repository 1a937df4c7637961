"""Build the control loop, the agent service and the price catalog from the settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from anygpu.backends.manager import BackendManager
from anygpu.control.agents.service import AgentService
from anygpu.control.agents.tickets import Tickets
from anygpu.control.build import ControlServices, assemble_supervisor
from anygpu.control.policy import ControlPolicy, SharingPolicy, parse_quotas
from anygpu.control.schedule.compare import OfferComparer, TermsOf
from anygpu.control.supervisor import Supervisor
from anygpu.control.term import PeriodicTask
from anygpu.plan.catalog import CatalogLayers, CatalogPolicy, terms
from anygpu.plan.offers.candidates import BackendTerms
from anygpu.plan.offers.migration import MigrationMode, MigrationPolicy
from anygpu.server.jobs.submission.planning import CatalogCandidates
from anygpu.server.process import log
from anygpu.server.process.clock import LoopWake, SystemClock, SystemRandomness
from anygpu.settings import InvalidSettings, QueueSettings, Settings, config_path
from anygpu.tenancy.secrets import JobSecrets
from anygpu.wiring.stores import Stores

AgentUrls = Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The clock and the source of randomness of this process, and the signal that wakes its control loop."""

    clock: SystemClock
    randomness: SystemRandomness
    wake: LoopWake


def build_agent_service(
    stores: Stores, tickets: Tickets, runtime: Runtime, policy: ControlPolicy, agent_urls: AgentUrls
) -> AgentService:
    return AgentService(
        stores.journal,
        stores.reports,
        stores.checkpoints,
        stores.uploads,
        stores.snapshots,
        JobSecrets(stores.secrets),
        tickets,
        runtime.clock,
        runtime.wake,
        policy,
        agent_urls,
    )


def build_supervisor(
    stores: Stores,
    backends: BackendManager,
    comparer: OfferComparer,
    tickets: Tickets,
    runtime: Runtime,
    policy: ControlPolicy,
    agent_url: str,
    agent_urls: AgentUrls,
    leader: str,
    further_tasks: Callable[[], Sequence[PeriodicTask]],
) -> Supervisor:
    services = ControlServices(
        journal=stores.journal,
        reports=stores.reports,
        checkpoints=stores.checkpoints,
        backends=backends,
        comparer=comparer,
        tickets=tickets,
        clock=runtime.clock,
        randomness=runtime.randomness,
        wake=runtime.wake,
        policy=policy,
        agent_url=lambda: agent_url,
        agent_urls=agent_urls,
        report=log.failure,
        is_visible=backends.visible,
        health=backends,
        further_tasks=further_tasks,
    )
    return assemble_supervisor(services, leader)


def build_market(settings: Settings) -> CatalogCandidates:
    wanted = settings.catalog
    return CatalogCandidates(
        CatalogLayers(folder=settings.state / "catalog", edits=config_path().with_name("catalog.csv")),
        CatalogPolicy.from_settings(
            discounts=wanted.discounts, credits=wanted.credits, own_prices=wanted.own_prices
        ),
        wanted.stale_days,
        lambda: datetime.now(UTC).date(),
    )


def terms_by_backend(policy: CatalogPolicy, backends: BackendManager) -> TermsOf:
    """Return a function that returns the credit and the egress price for the name of a backend.

    The catalog has them by cloud; the kind of a backend is the name of its cloud.
    """

    def terms_of(backend: str) -> BackendTerms:
        entry = backends.entry(backend)
        if entry is None:
            return BackendTerms()
        place = terms().get(entry.kind)
        return BackendTerms(
            credit_microusd=policy.credit_microusd(entry.kind),
            egress_microusd_per_gib=(place.egress_microusd_per_gib or 0) if place is not None else 0,
        )

    return terms_of


def control_policy(settings: Settings, organisation: str) -> ControlPolicy:
    """Return the policy of the control loop. `organisation` is the one of the server's operator."""
    agent, control = settings.agent, settings.control
    # Wake-ups do not cross processes: servers that share a database find each other's changes by polling.
    poll_s = control.safety_net_s if settings.embedded else min(control.safety_net_s, control.poll_events_s)
    return ControlPolicy(
        own_organisation=organisation,
        results_bytes=agent.results_bytes,
        results_files=agent.results_files,
        lease_s=agent.lease_s,
        grace_s=agent.cancel_grace_s,
        heartbeat_s=agent.heartbeat_s,
        report_every_s=agent.report_every_s,
        telemetry_every_s=agent.telemetry_every_s,
        probe_every_s=control.safety_net_s,
        leader_ttl_s=control.leader_ttl_s,
        paid_timeout_s=control.paid_timeout_s,
        max_paid_attempts=control.paid_attempts,
        allow_paid=control.allow_paid,
        claim_limit_s=control.claim_limit_s,
        spot_check_every_s=control.spot_tick_s,
        min_useful_s=control.useful_s,
        stop_allowance_s=control.stop_allowance_s,
        end_allowance_s=control.end_allowance_s,
        poll_s=poll_s,
        sweep_every_s=control.sweep_every_s,
        damaged_grace_s=control.damaged_grace_s,
        sharing=_sharing_policy(settings.queue),
        migration=_migration_policy(control.move),
    )


def _migration_policy(wanted: str) -> MigrationPolicy:
    modes: dict[str, MigrationMode] = {mode: mode for mode in get_args(MigrationMode)}
    if wanted not in modes:
        raise InvalidSettings(
            f"The setting control.move = {wanted!r} is not valid. Set it to one of: {', '.join(modes)}."
        )
    return MigrationPolicy(mode=modes[wanted])


def _sharing_policy(queue: QueueSettings) -> SharingPolicy:
    return SharingPolicy(
        quotas=parse_quotas(queue.quotas),
        may_borrow=queue.may_borrow,
        preempt=queue.preempt,
        bands_slot_s=(queue.short_gpu_hours * 3600, queue.long_gpu_hours * 3600),
        min_run_s=queue.runs_at_least_s,
        starvation_s=queue.starved_s,
    )
