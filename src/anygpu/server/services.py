"""The objects that the routes use, and the FastAPI dependencies that provide them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from anygpu.backends.manager import BackendManager
from anygpu.control.agents.service import AgentService
from anygpu.control.clock import Clock
from anygpu.control.jobs import Jobs
from anygpu.server.jobs.costs import CostReader
from anygpu.server.jobs.project_summary import OrphanCounter
from anygpu.server.jobs.queue import QueueSnapshot
from anygpu.server.jobs.submission.native import NativeRequestReader
from anygpu.server.jobs.submission.planning import JobPlanner
from anygpu.server.jobs.summaries import SummaryReader
from anygpu.server.live.stream import StreamSources
from anygpu.server.live.summaries import SummaryFeeds
from anygpu.server.process.metrics import HostTelemetry, ServerMetrics
from anygpu.server.process.periodic import Retention
from anygpu.settings import LimitSettings
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.snapshots import Snapshots
from anygpu.store.blobs.uploads import Plans, Uploads
from anygpu.store.journal import Journal
from anygpu.store.outcomes import Outcomes
from anygpu.store.reports import Reports
from anygpu.store.vault.secrets import Secrets
from anygpu.tenancy.auth import Authenticator, Caller, Role
from anygpu.tenancy.backend_profiles import BackendProfiles
from anygpu.tenancy.stream_access import StreamAccessWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything the routes need. `wiring` builds one object for each server process."""

    journal: Journal
    reports: Reports
    jobs: Jobs
    agents: AgentService
    blobs: Blobs
    checkpoints: Checkpoints
    uploads: Uploads
    snapshots: Snapshots
    secrets: Secrets
    authenticator: Authenticator
    outcomes: Outcomes
    costs: CostReader
    stream_sources: StreamSources
    stream_access: StreamAccessWatch
    summaries: SummaryReader
    orphan_counter: OrphanCounter
    summary_feeds: SummaryFeeds
    queue: QueueSnapshot
    metrics: ServerMetrics
    host_telemetry: HostTelemetry
    clock: Clock
    backends: BackendManager
    backend_profiles: BackendProfiles
    planner: JobPlanner
    native_requests: NativeRequestReader
    plans: Plans
    limits: LimitSettings
    allow_paid: bool
    blob_secret: bytes
    public_url: str
    agent_url: str
    version: str
    retention: Retention
    check_ready: Callable[[], Awaitable[None]]


def get_services(connection: HTTPConnection) -> Services:
    services: Services = connection.app.state.services
    return services


def get_caller(connection: HTTPConnection) -> Caller:
    """Return the authenticated caller. The access middleware sets one for every route that is not public."""
    caller: Caller = connection.state.caller
    return caller


def get_admin(connection: HTTPConnection) -> Caller:
    """Return the caller; raise if they are not an administrator. A dependency, so it runs before the body is read."""
    caller = get_caller(connection)
    caller.require(Role.ADMIN)
    return caller


ServicesDep = Annotated[Services, Depends(get_services)]
CallerDep = Annotated[Caller, Depends(get_caller)]
AdminDep = Annotated[Caller, Depends(get_admin)]
