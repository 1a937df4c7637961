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
from anygpu.server.gauges import Gauges
from anygpu.server.host_telemetry import HostTelemetry
from anygpu.server.planning import Planning
from anygpu.server.queue_look import QueueLook
from anygpu.server.stream import Sources
from anygpu.settings import LimitSettings
from anygpu.store.blobs import Blobs
from anygpu.store.checkpoints import Checkpoints
from anygpu.store.evidence import Evidence
from anygpu.store.journal import Journal
from anygpu.store.outcomes import Outcomes
from anygpu.store.plans import Plans
from anygpu.store.secrets import Secrets
from anygpu.store.uploads import Uploads
from anygpu.tenancy.access import Access, Caller
from anygpu.tenancy.profiles import ConfiguredBackends


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The rooms below, as the server uses them."""

    journal: Journal
    evidence: Evidence
    jobs: Jobs
    desk: Desk
    blobs: Blobs
    checkpoints: Checkpoints
    uploads: Uploads
    secrets: Secrets
    access: Access
    outcomes: Outcomes
    sources: Sources
    queue: QueueLook
    gauges: Gauges
    host: HostTelemetry
    clock: Clock
    backends: Backends
    configured: ConfiguredBackends
    planning: Planning
    plans: Plans
    limits: LimitSettings
    blob_secret: bytes
    public_url: str
    agent_url: str
    version: str
    collect_garbage: Callable[[bool], Awaitable[dict[str, Any]]]
    ready: Callable[[], Awaitable[None]]


def services(connection: HTTPConnection) -> Services:
    found: Services = connection.app.state.services
    return found


def caller(connection: HTTPConnection) -> Caller:
    """The gate lets nobody pass to a closed route without one."""
    found: Caller = connection.state.caller
    return found


Served = Annotated[Services, Depends(services)]
Asking = Annotated[Caller, Depends(caller)]
