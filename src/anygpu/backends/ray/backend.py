"""A Ray cluster, through its Jobs API. Each attempt is a Ray job.

The submission id of the job is the attempt's name, so a launch that is repeated starts nothing. Ray keeps its jobs in
the memory of the head node. If the head restarts, it forgets them, and the attempts count as lost.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anygpu.backends.batch.command import is_loopback_url
from anygpu.backends.contract import (
    AccountStatus,
    LaunchRequest,
    MachineState,
    NativeRequest,
    Observation,
)
from anygpu.backends.owner import owner_tag
from anygpu.backends.ray.api import RayClient
from anygpu.backends.ray.jobs import is_ended, observe_job
from anygpu.backends.ray.nodes import RayDemand, RayNode, build_offers, offer_name, parse_nodes
from anygpu.backends.ray.options import RayOptions
from anygpu.backends.ray.submission import (
    OWNER,
    AgentPackage,
    build_package,
    build_submission,
    show_submission,
)
from anygpu.backends.registry import BackendContext
from anygpu.backends.relay.contract import RELAY_LEASE_S, RelayTransport
from anygpu.backends.ssh.bootstrap import agent_archive
from anygpu.backends.vm.provider import OutcomeUnknown
from anygpu.errors import AnygpuError, LaunchRefused, NoCapacity
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

Options = RayOptions  # the registry finds the options by this name
# The cluster reports its usage every 5 s. Until then, a submitted job is counted here.
REPORT_LAG_S = 8.0
# Ray's monitor looks at a job every second. If the record is deleted before the monitor has seen the end, it writes a
# new record without any metadata.
DELETE_AFTER_S = 5.0
MAX_FINISHED = 10_000
MIN_API_VERSION = 4  # of Ray 2.4: `entrypoint_num_gpus` and the other resources of a job


async def open_backend(name: str, options: RayOptions, context: BackendContext) -> "RayBackend":
    return RayBackend(name, options, secret=context.secret, relay=context.relays.choose(options.relay))


class RayBackend:
    """Runs attempts as jobs of a Ray cluster."""

    probe_every_s = 5.0

    def __init__(
        self,
        name: str,
        options: RayOptions,
        *,
        secret: bytes,
        relay: RelayTransport | None = None,
        client: RayClient | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.relay = relay
        self._options = options
        self._ray = client or RayClient(options)
        self._clock = clock
        self._owner = owner_tag(secret, "owner of Ray jobs")
        self._nodes: dict[str, RayNode] = {}  # by offer name: one node of each shape
        self._submitted: dict[str, tuple[float, str, RayDemand]] = {}  # by attempt: when, where, what
        self._terminating: set[str] = set()
        self._finished: dict[str, None] = {}  # jobs that have ended and whose records are or will be deleted
        self._tasks: set[asyncio.Task[None]] = set()
        self._package: AgentPackage | None = None

    async def offers(self, need: Resources) -> Sequence[Offer]:
        nodes = await self._list_nodes()
        offers = build_offers(
            nodes, need, backend=self.name, options=self._options, submitted=self._recently_submitted()
        )
        least_s = RELAY_LEASE_S if self.relay is not None else 0.0
        return [replace(offer, lease_s=max(offer.lease_s, least_s)) for offer in offers]

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        handle = Handle(name=launch.name)
        if await self._ray.job(launch.name) is not None:
            return handle
        if self.relay is None:
            _require_reachable(launch.agent_url, self._options.address)
        node = await self._node_of(offer)
        package = await self._upload_agent()
        body = build_submission(launch, node, options=self._options, package=package.uri, owner=self._owner)
        self._finished.pop(launch.name, None)
        await self._ray.submit(body)
        self._submitted[launch.name] = (
            self._clock(),
            offer.name,
            RayDemand.of(launch.resources, self._options),
        )
        return handle

    async def probe(self, handle: Handle) -> Observation:
        if handle.name in self._finished:
            return Observation(state=MachineState.GONE, detail="the Ray job has ended")
        job = await self._ray.job(handle.name)
        if job is None:
            return _observe_unknown()
        if not is_ended(job):
            return observe_job(job)
        was_stopped = handle.name in self._terminating
        observed = observe_job(job, log=await self._read_log(job), was_stopped=was_stopped)
        if not was_stopped:
            return observed
        self._finish(handle.name)
        return replace(observed, state=MachineState.GONE)

    async def terminate(self, handle: Handle) -> None:
        """Stop the job. `probe` deletes its record some seconds after its end."""
        job = await self._ray.job(handle.name)
        if job is None or handle.name in self._finished:
            return
        if is_ended(job):
            self._finish(handle.name)
            return
        self._terminating.add(handle.name)
        await self._ray.stop(handle.name)

    async def inventory(self) -> Sequence[Handle]:
        """List the jobs of this server, also those that have ended but are still recorded."""
        jobs = [job for job in await self._ray.jobs() if _owner_of(job) == self._owner]
        names = [str(job["submission_id"]) for job in jobs if job.get("submission_id")]
        return [Handle(name=name) for name in names if name not in self._finished]

    async def check(self) -> AccountStatus:
        """Check that the API answers and is new enough, and that the cluster has nodes with CPUs or GPUs."""
        try:
            version = await self._ray.version()
            nodes = await self._list_nodes()
            await self._ray.jobs()
        except AnygpuError as error:
            return AccountStatus(valid=False, message=str(error))
        problem = _version_problem(version) or _node_problem(nodes)
        if problem:
            return AccountStatus(valid=False, message=problem)
        return AccountStatus(valid=True, message=_describe_cluster(version, nodes))

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]:
        body = build_submission(
            launch.without_secrets(),
            await self._node_of(offer),
            options=self._options,
            package=(await self._agent_package()).uri,
            owner=self._owner,
        )
        return show_submission(body, self._options.address, self._options.python)

    async def close(self) -> None:
        """Close the connections. The jobs keep running.

        Records that are not deleted yet are in the inventory of the next server, which deletes them.
        """
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ray.close()

    # -- nodes ------------------------------------------------------------------------------------------------

    async def _list_nodes(self) -> list[RayNode]:
        listed, usage = await asyncio.gather(self._ray.nodes(), self._ray.usage())
        nodes = parse_nodes(listed, usage)
        self._nodes = {offer_name(node): node for node in nodes}
        return nodes

    async def _node_of(self, offer: Offer) -> RayNode:
        """Return a node of the shape that is offered."""
        if offer.name not in self._nodes:
            await self._list_nodes()
        node = self._nodes.get(offer.name)
        if node is None:
            raise NoCapacity(
                f"The Ray cluster of the backend {self.name} has no node {offer.name!r} any more. Another offer is "
                f"tried. `anygpu backend check {self.name}` lists its nodes."
            )
        return node

    def _recently_submitted(self) -> dict[str, list[RayDemand]]:
        since = self._clock() - REPORT_LAG_S
        self._submitted = {name: entry for name, entry in self._submitted.items() if entry[0] > since}
        recent: dict[str, list[RayDemand]] = {}
        for _, offer, demand in self._submitted.values():
            recent.setdefault(offer, []).append(demand)
        return recent

    # -- jobs -------------------------------------------------------------------------------------------------

    async def _agent_package(self) -> AgentPackage:
        if self._package is None:
            archive = await agent_archive()
            self._package = build_package(archive.data, self._options.python)
        return self._package

    async def _upload_agent(self) -> AgentPackage:
        """Upload the agent to the cluster, unless the cluster has it."""
        package = await self._agent_package()
        if not await self._ray.has_package(package.name):
            await self._ray.upload_package(package.name, package.data)
        return package

    async def _read_log(self, job: Mapping[str, Any]) -> str:
        """Return the output of an ended job; empty if its node is gone."""
        try:
            return await self._ray.logs(str(job["submission_id"]))
        except AnygpuError:
            return ""

    def _finish(self, name: str) -> None:
        """Remember that the job has ended, and delete its record later."""
        self._terminating.discard(name)
        self._submitted.pop(name, None)
        self._finished[name] = None
        while len(self._finished) > MAX_FINISHED:
            del self._finished[next(iter(self._finished))]
        task = asyncio.create_task(self._delete_later(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _delete_later(self, name: str) -> None:
        await asyncio.sleep(DELETE_AFTER_S)
        try:
            await self._ray.delete(name)
        except (AnygpuError, OutcomeUnknown):
            self._finished.pop(name, None)  # the sweeper finds the record in the inventory


def _observe_unknown() -> Observation:
    """Return what it means that Ray does not know the job.

    The head may have restarted and lost its jobs, while the agent runs on for a minute until its node notices.
    """
    return Observation(
        state=MachineState.ABSENT,
        detail="the Ray cluster does not know the job; if it was started, the head node has lost its jobs, for "
        "example by a restart",
    )


def _owner_of(job: Mapping[str, Any]) -> str:
    metadata = job.get("metadata")
    return str(metadata.get(OWNER, "")) if isinstance(metadata, dict) else ""


def _require_reachable(agent_url: str, address: str) -> None:
    """Raise LaunchRefused if the agents of a cluster on other machines are to connect to a loopback address."""
    if is_loopback_url(agent_url) and not is_loopback_url(address):
        raise LaunchRefused(
            f"Agents on the Ray cluster cannot reach the server: the agent listener has the address {agent_url}",
            hint="Set server.agent_host to an address that the nodes of the cluster can reach, or server.agent_url to "
            "the URL of a proxy in front of the agent listener, or choose a relay with the backend's option `relay`.",
        )


def _version_problem(version: Mapping[str, Any]) -> str:
    text = str(version.get("version", ""))
    if text.isdecimal() and int(text) >= MIN_API_VERSION:
        return ""
    return (
        f"the cluster runs Ray {version.get('ray_version', '(unknown)')} with version {text or '(unknown)'} of the "
        f"Jobs API; version {MIN_API_VERSION} is needed. Update Ray to 2.9 or newer."
    )


def _node_problem(nodes: Sequence[RayNode]) -> str:
    if any(node.cpus or node.gpus for node in nodes):
        return ""
    return "the cluster has no node with CPUs or GPUs; start worker nodes, and see `ray status`"


def _describe_cluster(version: Mapping[str, Any], nodes: Sequence[RayNode]) -> str:
    shapes = [offer_name(node) for node in nodes]
    number = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    counted = ", ".join(f"{shapes.count(shape)} x {shape}" for shape in sorted(set(shapes)))
    without = (
        "" if any(node.gpus for node in nodes) else "; no node has a GPU, so only jobs without GPUs can run"
    )
    return f"Ray {version.get('ray_version')}, {number}: {counted}{without}"
