"""What the routes work with. Assembled in wiring, handed over whole."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import HTTPConnection

from anygpu.backends.configured import Backends
from anygpu.control.desk import Desk
from anygpu.control.jobs import Jobs
from anygpu.control.seams import Clock
from anygpu.server.jobs.planning import JobPlanner
from anygpu.server.jobs.queue import QueueSnapshot
from anygpu.server.live.stream import StreamSources
from anygpu.server.process.metrics import HostTelemetry, ServerMetrics
from anygpu.settings import LimitSettings
from anygpu.store.blobs import Blobs
from anygpu.store.checkpoints import Checkpoints
from anygpu.store.evidence import Evidence
from anygpu.store.journal import Journal
from anygpu.store.outcomes import Outcomes
from anygpu.store.plans import Plans
from anygpu.store.secrets import Secrets
from anygpu.store.uploads import Uploads
from anygpu.tenancy.auth import Authenticator, Caller
from anygpu.tenancy.backend_profiles import BackendProfiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The rooms below, as the server uses them."""

    journal: Journal
    reports: Evidence
    jobs: Jobs
    agents: Desk
    blobs: Blobs
    checkpoints: Checkpoints
    uploads: Uploads
    secrets: Secrets
    authenticator: Authenticator
    outcomes: Outcomes
    stream_sources: StreamSources
    queue: QueueSnapshot
    metrics: ServerMetrics
    host_telemetry: HostTelemetry
    clock: Clock
    backends: Backends
    backend_profiles: BackendProfiles
    planner: JobPlanner
    plans: Plans
    limits: LimitSettings
    blob_secret: bytes
    public_url: str
    agent_url: str
    version: str
    apply_retention: Callable[[bool], Awaitable[dict[str, Any]]]
    check_ready: Callable[[], Awaitable[None]]


def get_services(connection: HTTPConnection) -> Services:
    found: Services = connection.app.state.services
    return found


def get_caller(connection: HTTPConnection) -> Caller:
    """The gate lets nobody pass to a closed route without one."""
    found: Caller = connection.state.caller
    return found


ServicesDep = Annotated[Services, Depends(get_services)]
CallerDep = Annotated[Caller, Depends(get_caller)]
