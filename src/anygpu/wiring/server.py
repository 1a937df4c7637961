"""Assemble and run a complete server: stores, backends, control loop, listeners."""

import asyncio
import getpass
import hashlib
import hmac
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from anygpu import __version__
from anygpu.backends.manager import BackendManager
from anygpu.control.accounting.outcomes import OutcomeRecorder, PastRuns
from anygpu.control.agents.tickets import Tickets
from anygpu.control.jobs import Jobs
from anygpu.control.schedule.compare import OfferComparer
from anygpu.control.schedule.offer_cache import OfferCache
from anygpu.control.supervisor import Supervisor
from anygpu.errors import StoreBusy, Unauthorized
from anygpu.events.fold import Recorded
from anygpu.server.agent_app import build_agent_app
from anygpu.server.app import build_api, with_access_checks
from anygpu.server.encoding import format_time
from anygpu.server.http.middleware import AccessRules
from anygpu.server.http.origins import Origin, accepted_hosts, parse_origin
from anygpu.server.jobs.costs import CostReader
from anygpu.server.jobs.machines import load_inventory
from anygpu.server.jobs.project_summary import OrphanCounter
from anygpu.server.jobs.queue import QueueSnapshot
from anygpu.server.jobs.submission.admission import JobAdmission
from anygpu.server.jobs.submission.native import NativeRequestReader
from anygpu.server.jobs.submission.planning import AnalysisReader, JobPlanner
from anygpu.server.jobs.summaries import SummaryReader
from anygpu.server.live.hub import Hub
from anygpu.server.live.stream import StreamSources
from anygpu.server.live.summaries import SummaryFeeds, SummarySources
from anygpu.server.process import log, state
from anygpu.server.process.clock import LoopWake, SystemClock, SystemRandomness
from anygpu.server.process.connections import ConnectionLimits
from anygpu.server.process.descriptors import connections_per_listener, raise_descriptor_limit
from anygpu.server.process.listeners import UvicornListener, freeze_gc, local_url
from anygpu.server.process.metrics import HostTelemetry, ServerMetrics
from anygpu.server.process.periodic import OutcomeWriter, Retention
from anygpu.server.process.registry import ServerRegistry
from anygpu.server.services import Services
from anygpu.settings import InvalidSettings, LimitSettings, Settings
from anygpu.store.blobs.uploads import Plans
from anygpu.store.journal import Journal, OnCommit
from anygpu.store.scope import Scope
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.schema import SCHEMA_VERSION
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.servers import ServerRecord, ServerTable
from anygpu.store.sql.tokens import Tokens
from anygpu.tenancy.auth import Authenticator, Role
from anygpu.tenancy.backend_profiles import BackendProfiles
from anygpu.tenancy.stream_access import StreamAccessWatch
from anygpu.wiring.backends import REFRESH_EVERY_S, open_backends
from anygpu.wiring.control import (
    Runtime,
    build_agent_service,
    build_market,
    build_supervisor,
    control_policy,
    terms_by_backend,
)
from anygpu.wiring.relay import build_relays, relay_tasks
from anygpu.wiring.stores import (
    build_retention,
    key_rotation,
    open_server_keys,
    open_stored_database,
    open_stores,
)

ORGANISATION, PROJECT = "local", "default"
STOP_LIMIT_S = 5.0
LOAD_ROUTES_DELAY_S = 0.5  # the routes that the start leaves out
READINESS_LIMIT_S = 5.0  # until the server is reported as not ready, because the database does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKeys:
    """The server's secrets, one for each purpose, all derived from one key file."""

    blobs: bytes
    tickets: bytes
    machines: bytes

    @classmethod
    def from_root(cls, root: bytes) -> "ServerKeys":
        made = {name: hmac.new(root, name.encode(), hashlib.sha256).digest() for name in cls.__slots__}
        return cls(**made)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """The parts of a running server, without its listeners."""

    services: Services
    supervisor: Supervisor
    retention: Retention
    backends: BackendManager
    recording: OutcomeWriter
    recorder: OutcomeRecorder
    registry: ServerRegistry | None  # None: no other server can use the same database


@asynccontextmanager
async def run_server(settings: Settings, *, accept_new_keys: bool = False) -> AsyncIterator[dict[str, Any]]:
    """Run a complete server while the `async with` block runs. The value is the server's address.

    At the end of the block, everything is closed in reverse order.
    """
    state.prepare_directory(settings.state)
    async with AsyncExitStack() as stack:
        if settings.embedded:
            stack.enter_context(state.lock_state(settings.state))
        api_socket = state.bind_api(settings.server.host, settings.server.port)
        agent_socket = state.bind_agents(
            settings.state, settings.server.agent_host, settings.server.agent_port
        )
        urls = ListenerUrls(api=local_url(api_socket), agents=local_url(agent_socket))
        parts = await _assemble(settings, urls, stack, accept_new_keys=accept_new_keys)
        services = parts.services
        await parts.retention.check_start()
        await _start_listeners(settings, services, api_socket, agent_socket, stack)
        if parts.registry is not None:
            await parts.registry.renew()
            await stack.enter_async_context(_background(parts.registry.run()))
        await stack.enter_async_context(_background(parts.backends.follow(REFRESH_EVERY_S)))
        await stack.enter_async_context(_background(services.stream_access.run()))
        if settings.server.control:
            stack.push_async_callback(_within_limit, parts.supervisor.release_lease)
            await stack.enter_async_context(_background(parts.supervisor.run()))
            await stack.enter_async_context(_background(parts.retention.run_every(settings.store.gc_every_s)))
            await stack.enter_async_context(_background(parts.recording.run(parts.recorder)))
        address = _address(settings, api_socket, services)
        stack.enter_context(state.publish_address(settings.state, address))
        freeze_gc()
        yield address
        services.stream_sources.hub.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerUrls:
    """The URLs of the two listeners, as programs on this machine reach them."""

    api: str
    agents: str


async def _assemble(
    settings: Settings, urls: ListenerUrls, stack: AsyncExitStack, *, accept_new_keys: bool
) -> ServerParts:
    database = await open_stored_database(settings, stack)
    keys = ServerKeys.from_root(await open_server_keys(settings, database, accept_new=accept_new_keys))
    runtime = Runtime(clock=SystemClock(), randomness=SystemRandomness(), wake=LoopWake())
    hub = _hub(settings)
    recording = OutcomeWriter()
    stores = open_stores(settings, database, keys.blobs, _notify_all(hub.on_commit, recording.on_commit))
    policy, tickets = control_policy(settings, ORGANISATION), Tickets(keys.tickets)
    relays = build_relays(settings, stores.blobs)
    backends = await open_backends(
        settings,
        stores.profiles,
        secret=keys.machines,
        agent_url=urls.agents,
        organisation=ORGANISATION,
        wake=runtime.wake,
        now_ms=runtime.clock.wall_ms,
        relays=relays,
        stack=stack,
    )
    retention = build_retention(settings, stores, runtime.clock)
    agents_go_to = settings.server.agent_url or urls.agents
    leader = state.leader_name(settings.state, alone=settings.embedded)
    registry = _registry(settings, database, runtime.clock, leader, urls)
    own_urls = [url for url in (agents_go_to, _shared_agent_url(settings)) if url]
    agent_urls = registry.agent_urls if registry is not None else lambda: own_urls
    reader, plans = (
        AnalysisReader(stores.blobs, stores.uploads, stores.snapshots, policy.own_organisation),
        Plans(stores.blobs),
    )
    past_runs = PastRuns(stores.outcomes)
    prices = build_market(settings)
    terms_of = terms_by_backend(prices.policy, backends)
    tokens = Tokens(stores.database)
    stream_access = StreamAccessWatch(tokens, runtime.clock.wall_ms, log.failure)
    access = Authenticator(tokens, runtime.clock.wall_ms, stream_access.on_revoked)
    await _ensure_own_token(settings, access)
    offer_cache = OfferCache(backends, runtime.clock, policy, backends)
    planner = JobPlanner(
        backends,
        offer_cache,
        prices,
        reader,
        past_runs,
        runtime.clock,
        terms_of,
        allow_paid=policy.allow_paid,
    )
    admission = JobAdmission(
        backends,
        offer_cache,
        planner,
        prices,
        allow_paid=policy.allow_paid,
        min_run_s=policy.min_run_s,
        has_peers=not settings.embedded,
    )
    queue = QueueSnapshot(stores.journal, runtime.clock, policy)
    summaries = SummaryReader(stores.reports, queue, runtime.clock)
    summary_sources = SummarySources(
        stores.journal, summaries.read, queue.live, log.failure, _poll_s(settings)
    )
    services = Services(
        journal=stores.journal,
        reports=stores.reports,
        jobs=Jobs(
            stores.journal,
            stores.reports,
            stores.checkpoints,
            runtime.clock,
            runtime.randomness,
            runtime.wake,
            policy.own_organisation,
            admission,
        ),
        agents=build_agent_service(stores, tickets, runtime, policy, agent_urls),
        blobs=stores.blobs,
        checkpoints=stores.checkpoints,
        uploads=stores.uploads,
        snapshots=stores.snapshots,
        secrets=stores.secrets,
        authenticator=access,
        outcomes=stores.outcomes,
        costs=CostReader(stores.costs, stores.outcomes, queue, runtime.clock),
        stream_sources=StreamSources(
            journal=stores.journal, reports=stores.reports, hub=hub, poll_s=_poll_s(settings)
        ),
        stream_access=stream_access,
        summaries=summaries,
        orphan_counter=OrphanCounter(_orphan_count(backends, stores.journal)),
        summary_feeds=SummaryFeeds(summary_sources, hub),
        queue=queue,
        metrics=ServerMetrics(),
        host_telemetry=HostTelemetry(str(settings.state)),
        clock=runtime.clock,
        backends=backends,
        backend_profiles=BackendProfiles(
            stores.profiles,
            backends,
            stores.journal.live,
            runtime.clock.wall_ms,
            key_rotation(settings, stores),
        ),
        planner=planner,
        native_requests=NativeRequestReader(backends, planner, policy, agents_go_to),
        plans=plans,
        limits=settings.limits,
        allow_paid=policy.allow_paid,
        blob_secret=keys.blobs,
        public_url=settings.server.public_url,
        agent_url=agents_go_to,
        version=__version__,
        retention=retention,
        check_ready=_readiness_check(stores.journal),
    )
    comparer = OfferComparer(reader, plans, runtime.clock, past_runs, terms_of, allow_paid=policy.allow_paid)
    leading = build_supervisor(
        stores,
        backends,
        comparer,
        tickets,
        runtime,
        policy,
        agents_go_to,
        agent_urls,
        leader,
        relay_tasks(services, backends, relays, runtime.clock),
    )
    return ServerParts(
        services=services,
        supervisor=leading,
        retention=retention,
        backends=backends,
        recording=recording,
        recorder=OutcomeRecorder(stores.journal, stores.reports, stores.outcomes, log.failure),
        registry=registry,
    )


def _registry(
    settings: Settings, database: Database, clock: SystemClock, name: str, urls: ListenerUrls
) -> ServerRegistry | None:
    """Return what records this process in the shared database. None if no other server can use the database."""
    if settings.embedded:
        return None
    record = ServerRecord(
        id=name,
        host=socket.gethostname(),
        url=settings.server.public_url or urls.api,
        agent_url=settings.server.agent_url or urls.agents,
        version=__version__,
        schema_version=SCHEMA_VERSION,
        started_at_ms=clock.wall_ms(),
    )
    ttl_s = settings.control.leader_ttl_s
    return ServerRegistry(
        ServerTable(database),
        record,
        clock,
        ttl_s=ttl_s,
        on_too_new=_stop_process,
        shared_url=_shared_agent_url(settings),
    )


def _shared_agent_url(settings: Settings) -> str:
    url = settings.server.agent_shared_url
    if url and not url.startswith(("http://", "https://")):
        raise InvalidSettings(
            f"The setting server.agent_shared_url = {url!r} is not a URL.",
            hint="Write it as http://host:port.",
        )
    return url


def _stop_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _orphan_count(backends: BackendManager, journal: Journal) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return len((await load_inventory(backends, journal)).orphans)

    return count


def _notify_all(*listeners: OnCommit) -> OnCommit:
    def notify(recorded: Sequence[Recorded]) -> None:
        for each in listeners:
            each(recorded)

    return notify


def _hub(settings: Settings) -> Hub:
    poll_s = _poll_s(settings)
    age_s = float("inf") if poll_s is None else poll_s / 2
    return Hub(max_followers=settings.limits.followers, max_read_age_s=age_s)


def _poll_s(settings: Settings) -> float | None:
    """Return the seconds between two polls for changes that other servers made.

    Return None if no other server can use the same database.
    """
    return None if settings.embedded else settings.control.poll_events_s


async def _start_listeners(
    settings: Settings,
    services: Services,
    api_socket: socket.socket,
    agent_socket: socket.socket,
    stack: AsyncExitStack,
) -> None:
    grace_s, limits = settings.server.shutdown_grace_s, _connection_limits(settings.limits)
    api = build_api(services)
    asyncio.get_running_loop().call_later(LOAD_ROUTES_DELAY_S, api.load_routes)
    listeners = [
        UvicornListener(
            with_access_checks(api, services, _gate_rules(settings)),
            api_socket,
            grace_s=grace_s,
            limits=limits,
        ),
        UvicornListener(build_agent_app(services), agent_socket, grace_s=grace_s, limits=limits),
    ]
    stack.push_async_callback(_stop_together, listeners)
    for listener in listeners:
        await listener.start()


def _connection_limits(limits: LimitSettings) -> ConnectionLimits:
    allowed = connections_per_listener(limits.connections, raise_descriptor_limit())
    if allowed < limits.connections:
        log.warning(
            "the system's limit of open files is too low for limits.connections; raise it with `ulimit -n`",
            connections=allowed,
        )
    return ConnectionLimits(
        connections=allowed,
        header_bytes=limits.header_bytes,
        header_count=limits.header_count,
        header_s=limits.header_s,
        silence_s=limits.silence_s,
    )


async def _stop_together(listeners: list[UvicornListener]) -> None:
    await asyncio.gather(*(listener.stop() for listener in listeners))


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        # A database that does not answer must not delay the stop of the server.
        await asyncio.wait({task}, timeout=STOP_LIMIT_S)


async def _within_limit(stop: Callable[[], Awaitable[None]]) -> None:
    """Run a step of the stop of the server. A database that does not answer must not delay the stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(STOP_LIMIT_S):
            await stop()


def _gate_rules(settings: Settings) -> AccessRules:
    server, limits = settings.server, settings.limits
    names = [*server.allowed_hosts, server.host, socket.gethostname()]
    public = [_origin("server.public_url", server.public_url)] if server.public_url else []
    allowed = [_origin("server.allowed_origins", text) for text in server.allowed_origins]
    return AccessRules(
        hosts=accepted_hosts(names, public),
        origins=frozenset((*allowed, *public)),
        body_bytes=limits.spec_bytes,
        streamed_bytes=max(limits.upload_bytes, limits.snapshot_bytes, limits.blob_bytes),
    )


def _origin(key: str, text: str) -> Origin:
    without_path = "/".join(text.split("/")[:3])
    origin = parse_origin(without_path)
    if origin is None:
        raise InvalidSettings(
            f"The setting {key} = {text!r} is not the address of a web page.",
            hint="Write it as https://host or https://host:port.",
        )
    return origin


async def _ensure_own_token(settings: Settings, access: Authenticator) -> None:
    """Create the operator's token and store it in the state directory, unless it exists already."""
    token = state.load_or_create_token(settings.state / "token")
    try:
        await access.caller_for_token(token)
    except Unauthorized:
        scope = Scope(organisation=ORGANISATION, project=PROJECT, person=_user_name())
        await access.create_token(scope, Role.OPERATOR, label="this machine", token=token)


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        return str(os.getuid())


def _address(settings: Settings, api_socket: socket.socket, services: Services) -> dict[str, Any]:
    return {
        "url": local_url(api_socket),
        "agent_url": services.agent_url,
        "pid": os.getpid(),
        "started": format_time(services.clock.wall_ms()),
        "version": services.version,
        "state": str(settings.state),
    }


def _readiness_check(
    journal: SqlJournal, limit_s: float = READINESS_LIMIT_S
) -> Callable[[], Awaitable[None]]:
    async def ready() -> None:
        try:
            async with asyncio.timeout(limit_s):
                await journal.head(Scope(organisation=ORGANISATION, project=PROJECT))
        except TimeoutError:
            raise StoreBusy(f"The database has not answered within {limit_s:g} s.") from None

    return ready
